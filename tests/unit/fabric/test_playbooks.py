"""The playbooks of the fabric in real runs, and their variables."""

from __future__ import annotations

import os
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Hca
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    ibnetdiscover_text,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.requested_proofs import duration
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.variable_names import VARIABLES
from tests.kit.fabric_files import artefacts
from tests.kit.plays import play
from tests.unit.fabric.adopt.judge import adopted
from tests.unit.fabric.adopt.shapes import cluster_text, existing
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import ROOT, VARIABLE, books, cluster, files, seen, swap


@pytest.mark.simulation
def test_from_plan_to_record_and_again(tmp_path: Path):
    # The inventory is a directory, as in README.md: what is written beside the cluster file must not be read as inventory.
    site = tmp_path / "site"
    site.mkdir()
    found = cluster(site)
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin/ibnetdiscover"
    tool.write_text(f"#!/bin/sh\ncat {tmp_path}/now.txt\n")
    tool.chmod(0o755)
    (tmp_path / "now.txt").write_text(ibnetdiscover_text(seen(found)))
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    options = ["-i", str(site), "-e", "ansible_connection=local", "-e", "fabric_record=true"]
    done = play(*books("fabric_compare", "fabric", "fabric"), *options, **path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pod32: 512 of 512 " in done.stdout
    # The recap counts all plays so far: the comparison and the record, then the files, then nothing.
    assert re.findall(r"^localhost .* changed=(\d+)", done.stdout, re.MULTILINE) == ["2", "3", "3"]
    written = {str(one.relative_to(site / "fabric")): one.read_text() for one in files(site / "fabric")}
    shown = {name: text for name, text in written.items() if not name.startswith(("comparison/", ".bedplate/"))}
    assert shown == artefacts(load(found.path))
    assert {"opensm/fabric/root_guid.conf", "opensm/fabric/cn_guid.conf"} < set(shown)


@pytest.mark.simulation
def test_a_fault_fails_the_run_and_leaves_its_files(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    swap(discovery, "su1-r3", 5, 6)
    (tmp_path / "saved.txt").write_text(ibnetdiscover_text(discovery))
    saved = os.path.relpath(tmp_path / "saved.txt", ROOT)
    done = play(*books("fabric_topology", "fabric_compare"), "-i", found.path, "-e", f"fabric_saved={saved}")
    assert done.returncode == 2
    assert "Nodes=gpu[001-032]" in (tmp_path / "fabric/discovered/slurm/topology.conf").read_text()
    assert "ERROR    swapped  rack net1, su1-r3 port" in done.stdout
    # The written files are not printed, so that the finding stays on the screen.
    assert "1 swapped. All are in" in done.stdout
    assert "<!DOCTYPE html>" not in done.stdout
    assert {path.name for path in (tmp_path / "fabric/comparison").iterdir()} == {
        "findings.json", "findings.xml", "fabric.html",
    }  # fmt: skip
    assert not (tmp_path / "pod.guids.json").exists()


@pytest.mark.simulation
def test_an_existing_fabric_is_adopted_and_then_compared_without_a_finding(tmp_path: Path):
    site = tmp_path / "site"
    site.mkdir()
    there = existing("rail-optimised", 2, site)
    (saved,) = there.outputs()
    (tmp_path / "saved.txt").write_text(saved.text)
    # The inventory is the directory: what is written beside the cluster file must not be read as inventory.
    options = ["-i", str(site), "-e", f"fabric_saved={tmp_path}/saved.txt"]
    done = play(*books("fabric_adopt"), *options, "--check", "--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^localhost .* changed=(\d+)", done.stdout, re.MULTILINE) == ["1"]
    assert "+a,a_port,b,b_port,comment" in done.stdout
    assert [path.name for path in files(site)] == ["there.bedplate.yml"]
    done = play(*books("fabric_adopt", "fabric_adopt", "fabric_audit"), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    # The recap counts all plays so far: the second adoption and the audit change nothing.
    assert re.findall(r"^localhost .* changed=(\d+)", done.stdout, re.MULTILINE) == ["1"] * 3
    assert (
        "there: rail-optimised; 12 switches on 2 tiers (8, 4); 64 HCAs, 128 cables; 3 findings: 3 unnamed"
        in done.stdout
    )
    assert there.path.read_text() == cluster_text(there.world.plan)
    section = re.search(r"^ *fabric:\n(?: +\S.*\n)+", done.stdout, re.MULTILINE)
    assert section
    there.path.write_text(there.path.read_text() + textwrap.dedent(section[0]))
    done = play(*books("fabric_compare", "fabric"), *options, "-e", "fabric_fail_on=notice")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "there: 128 of 128 planned cables are as planned, no findings" in done.stdout
    assert "SwitchName" in (site / "fabric/slurm/topology.conf").read_text()


@pytest.mark.simulation
def test_an_adopted_list_that_differs_is_replaced_only_when_that_is_asked_for(tmp_path: Path):
    there = existing("leaf-spine", 2, tmp_path)
    adopted(there)
    before = (tmp_path / "cables.csv").read_text()
    link = next(link for link in there.world.links if link.kind != "host")
    there.world.cut(link.ends[0])
    (saved,) = there.outputs()
    (tmp_path / "saved.txt").write_text(saved.text)
    options = [*books("fabric_adopt"), "-i", str(there.path), "-e", f"fabric_saved={tmp_path}/saved.txt"]
    done = play(*options)
    assert done.returncode == 2
    assert "1 cable less" in done.stdout
    assert (tmp_path / "cables.csv").read_text() == before
    done = play(*options, "--diff", "-e", "fabric_adopt=update")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^ *-{link.a},{link.a_port},{link.b},{link.b_port},", done.stdout, re.MULTILINE)
    assert len((tmp_path / "cables.csv").read_text().splitlines()) == len(before.splitlines()) - 1
    # What is wrong with a list ends every run before anything is written.
    (tmp_path / "cables.csv").write_text(before.replace("gpu003 mlx5_0", "gpu999 mlx5_0"))
    done = play(*books("fabric"), "-i", str(there.path))
    assert done.returncode == 2
    assert re.search(r"cables\.csv:\d+: a: 'gpu999' is neither a node nor a host", done.stdout)
    assert not (tmp_path / "fabric/cabling.csv").exists()


@pytest.mark.simulation
def test_mistakes_end_the_run_before_anything_is_written(tmp_path: Path):
    found = cluster(tmp_path, ("uplinks: 32", "uplinks: 8"))
    done = play(*books("fabric"), "-i", found.path)
    assert done.returncode == 2
    assert ": fabric.uplinks: rack net1, su1-r[0-7]: " in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["pod.bedplate.yml"]


@pytest.mark.playbooks
@pytest.mark.parametrize(
    ("name", "hint"),
    [("fabric_failon", "did you mean fabric_fail_on?"), ("fabric_zz", "allowed: fabric_adopt, fabric_directory, ")],
)
def test_a_variable_that_no_playbook_takes_is_refused_before_anything_is_read(name: str, hint: str, tmp_path: Path):
    found = cluster(tmp_path)
    done = play(
        *books("fabric_compare"), "-i", found.path, "-e", f"{name}=never", "-e", "fabric_saved=/nowhere", "-e", "x=1"
    )
    assert done.returncode == 2
    assert f"{name} is not a variable of the playbooks of the fabric; {hint}" in done.stdout
    assert "/nowhere" not in done.stdout


@pytest.mark.playbooks
def test_errors_of_an_audit_and_of_the_routes_in_force_fail_their_runs(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    text = ibnetdiscover_text(discovery)
    (tmp_path / "now.txt").write_text(text)
    heads = [f"Unicast lids [0x0-0x1] of switch Lid {one.lid} guid 0x{one.guid} (x):" for one in discovery.switches]
    (tmp_path / "now.fts").write_text("\n".join(heads))
    saved = f"fabric_saved={tmp_path}/now.txt,{tmp_path}/now.fts"
    done = play(*books("fabric_routes"), "-i", found.path, "-e", saved)
    assert done.returncode == 2
    assert "cannot reach each other" in done.stdout
    assert "Fail on routes that are worse than proved" in done.stdout
    (tmp_path / "now.txt").write_text(text.replace("gpu002 mlx5_0", "gpu001 mlx5_0"))
    done = play(*books("fabric_audit"), "-i", found.path, "-e", f"fabric_saved={tmp_path}/now.txt")
    assert done.returncode == 2
    assert "ERROR    duplicate-name  gpu001 mlx5_0" in done.stdout


def test_the_variables_are_those_of_the_playbooks_and_each_playbook_checks_them():
    texts = {book.stem: book.read_text() for book in ROOT.glob("playbooks/fabric*.yml")}
    assert {name for text in texts.values() for name in VARIABLE.findall(text)} == set(VARIABLES)
    begin = re.compile(r"import_playbook: (validate_fabric|fabric_discover)\.yml")
    assert all(begin.search(text) for text in texts.values())
    assert "import_playbook: validate_fabric.yml" in texts["fabric_discover"]


def test_the_check_says_how_much_it_simulates_and_how_long_that_takes(tmp_path: Path):
    plan = planned(cluster(tmp_path)).plan
    many = replace(plan, hcas={f"gpu{n} mlx5_0": Hca(f"gpu{n}", "mlx5_0") for n in range(8192)})
    ethernet = replace(plan, technology="ethernet")
    check_messages("fabric_check: how long it takes", [duration(one) for one in (plan, many, ethernet)])
