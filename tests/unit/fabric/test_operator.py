"""A fabric as an operator has it: the files, the comparison, the record, and the playbooks in real runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import KINDS
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import Discovery
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Hca
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.netfile import (
    connect,
    discovery_of,
    ibnetdiscover_text,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.saved import Told
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.artefacts import (
    LEFT_OUT,
    PlanError,
    artefacts,
    planned,
    written,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compared import compared, of_discovered, sources
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.proofs import takes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.variables import VARIABLES
from tests.unit.fabric.test_lldp import answers

ROOT = Path(__file__).parents[3]
POD = (ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml").read_text()
# A variable of a playbook that an operator may set.
VARIABLE = re.compile(r"\b(fabric_\w+)(?: \| default| is (?:un)?defined)")
EVERY = {
    "cn_guid.conf",
    "guid_routing_order.conf",
    "node-name-map",
    "opensm-gpu002.conf",
    "opensm.conf",
    "partitions.conf",
    "qos-policy.conf",
    "root_guid.conf",
}


def cluster(tmp_path: Path, *edits: tuple[str, str]) -> Cluster:
    text = POD
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "pod.bedplate.yml"
    path.write_text(text)
    return load(path)


def seen(found: Cluster) -> Discovery:
    return discovery_of(plan_of(found))


def told(discovery: Discovery, name: str = "fabric") -> list[Told]:
    return [Told(name, ibnetdiscover_text(discovery))]


def node(discovery: Discovery, name: str):
    return next(one for one in discovery.nodes.values() if one.description == name)


def swap(discovery: Discovery, leaf: str, one: int, other: int) -> None:
    """Swap two cables at a leaf."""
    switch = node(discovery, leaf)
    ends = {port: (discovery.nodes[switch.cables[port].guid], switch.cables[port].port) for port in (one, other)}
    for port, far in ((one, ends[other]), (other, ends[one])):
        connect(switch, port, *far, "4x", "NDR")


def cut(discovery: Discovery, name: str) -> None:
    """Take out an HCA's cable."""
    hca = node(discovery, name)
    cable = hca.cables.pop(1)
    del discovery.nodes[cable.guid].cables[cable.port]


def keep(found: Cluster, text: str) -> None:
    record.path_of(found.path).write_text(text)


# The files.


def test_before_delivery_all_but_lists_of_guids_is_there_and_the_rest_is_told_of(tmp_path: Path):
    files = artefacts(cluster(tmp_path))
    assert set(files) == {
        "slurm/topology.conf", "opensm/fabric/partitions.conf", f"opensm/fabric/{LEFT_OUT}", "ibsim/fabric.net",
        "cabling.csv", "cables-bill.csv", "fabric.svg", "fabric.html",
    }  # fmt: skip
    told_of = files[f"opensm/fabric/{LEFT_OUT}"]
    assert "root_guid.conf needs node GUIDs, and 4 of 4 switches have none: rack net1, spine01" in told_of
    assert "the cluster file names no services.subnet_managers" in told_of
    assert "    ALL=full,\n    SELF=full ;\n" in files["opensm/fabric/partitions.conf"]


def test_with_guids_on_record_and_managers_of_the_plan_nothing_is_left_out(tmp_path: Path):
    edits = (
        ("  rest: ctl1\n", "  rest: ctl1\n  subnet_managers: [gpu001, gpu002]\n"),
        ("- {name: mlx5_7, rail: 7}", "- {name: mlx5_7, rail: 7}\n      - {name: mlx5_8}"),
        ("kind: rail-optimised, ", ""),
        ("leaf: su1, ", 'leaf: "su[1-2]", '),
        ("uplinks: 32", "uplinks: 160, switch_ports: 640"),
        ("su1-r[0-7],spine", "su[1-2],spine"),
    )
    found = cluster(tmp_path, *edits)
    keep(found, compared(found, told(seen(found))).guids)
    files = artefacts(found)
    assert {name.rpartition("/")[2] for name in files if name.startswith("opensm/")} == EVERY
    master, standby = files["opensm/fabric/opensm.conf"], files["opensm/fabric/opensm-gpu002.conf"]
    assert ("sm_priority 15" in master, "sm_priority 14" in standby) == (True, True)
    guids = record.read(record.path_of(found.path))
    assert f"guid 0x{guids['gpu001 mlx5_0']['port']}" in master
    listed = re.findall(r"^0x(\w+)", files["opensm/fabric/root_guid.conf"], re.MULTILINE)
    assert listed == [guids[f"spine0{n}"]["node"] for n in range(1, 5)]


def test_each_plane_has_its_own_files(tmp_path: Path):
    edits = (("kind: rail-optimised, ", "kind: rail-only, "), ('"spine[01-04]"', '"spine[01-08]"'))
    files = artefacts(cluster(tmp_path, *edits))
    assert [name for name in files if name.startswith("ibsim/")] == [f"ibsim/rail{n}.net" for n in range(8)]
    assert {name.split("/")[1] for name in files if name.startswith("opensm/")} == {f"rail{n}" for n in range(8)}
    assert "8 switches" not in files["ibsim/rail0.net"]


def test_ethernet_has_neither_opensm_nor_ibsim(tmp_path: Path):
    files = artefacts(cluster(tmp_path, ("kind: rail-optimised, ", "kind: rail-optimised, technology: ethernet, ")))
    assert not [name for name in files if name.startswith(("opensm/", "ibsim/"))]


@pytest.mark.parametrize(("version", "yaml"), [("24.11", False), ("25.05", True), ("26.05.5", True)])
def test_topology_yaml_is_there_where_slurm_reads_it(tmp_path: Path, version: str, yaml: bool):
    files = artefacts(cluster(tmp_path), version)
    assert ("slurm/topology.yaml" in files) is yaml
    assert "SwitchName=spine Switches=su1\n" in files["slurm/topology.conf"]


def test_mistakes_of_the_plan_are_told_at_once(tmp_path: Path):
    found = cluster(tmp_path, ("uplinks: 32", "uplinks: 8"))
    with pytest.raises(PlanError) as error:
        artefacts(found)
    line = next(n for n, line in enumerate(Path(found.path).read_text().splitlines(), 1) if line.startswith("fabric: "))
    assert str(error.value) == (
        f"{found.path}:{line}: fabric.uplinks: rack net1, su1-r[0-7]: 32 cables from below and 8 up are 4.00 to 1, and 1 to 1 is allowed. "
        "Mended by fabric.uplinks, fabric.oversubscription, fabric.missing, racks [docs/fabric.md, P4]"
    )


def test_a_discovery_is_in_the_page(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    cut(discovery, "gpu005 mlx5_3")
    files = artefacts(found, discoveries={"": discovery})
    assert json.loads(files["findings.json"])["counts"] == {"missing": 1}
    assert "511 of them found as planned" in files["fabric.html"]


def test_cables_without_a_length_are_told_of_once_with_what_to_state(tmp_path: Path):
    def told_of(*edits: tuple[str, str]) -> list[str]:
        files, findings = written(planned(cluster(tmp_path, *edits)))
        assert all(one.difference in files["fabric.html"] for one in findings)
        return [str(one) for one in findings]

    assert told_of() == []
    rackless, nowhere = (', switch_racks: {"su1-r[0-7],spine[01-04]": net1}', ""), ("row: B, column: 9", "row: B")
    switches = "cabling.csv: of 512 cables 512 have no length: no rack is known of switches: su1-r0, su1-r1, su1-r2"
    assert told_of(rackless)[0].startswith(switches)
    assert told_of(rackless)[0].endswith("and 6 more; state fabric.switch_racks")
    assert told_of(nowhere) == [
        "cabling.csv: of 512 cables 256 have no length: of racks no row and column is known: net1; state `row` and `column` under `racks`"
    ]


# The comparison.


def test_a_swap_is_told_with_where_to_go(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    swap(discovery, "su1-r3", 5, 6)
    report = compared(found, told(discovery))
    assert report.summary == "pod32: 510 of 512 planned cables are as planned; findings: 1 swapped"
    first, second, third = report.table.splitlines()
    assert first == report.summary
    assert re.match(
        r"ERROR    swapped  rack net1, su1-r3 port [56]: expected gpu00[56] mlx5_3, found gpu00[56] mlx5_3", second
    )
    assert re.match(r" +-> swap with rack net1, su1-r3 port [56]", third)
    assert (report.worst, report.failed) == ("error", True)
    suite = ElementTree.fromstring(report.files["findings.xml"])
    assert suite.attrib["failures"] == "1"


@pytest.mark.parametrize(
    ("fail_on", "failed"), [("error", False), ("warning", True), ("notice", True), ("never", False)]
)
def test_warnings_fail_where_that_is_asked_for(tmp_path: Path, fail_on: str, failed: bool):
    found = cluster(tmp_path)
    discovery = seen(found)
    node(discovery, "gpu005 mlx5_3").description = "MT4129 ConnectX7   Mellanox Technologies"
    report = compared(found, told(discovery), fail_on)
    assert (report.worst, report.failed) == ("warning", failed)


def test_a_name_from_the_network_does_nothing_to_a_terminal(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    node(discovery, "gpu005 mlx5_3").description = "evil\x1b[2J mlx5_3"
    assert "\x1b" not in compared(found, told(discovery)).table


def test_neighbours_of_every_box_are_compared_for_roce(tmp_path: Path):
    found = cluster(tmp_path, ("kind: rail-optimised, ", "kind: rail-optimised, technology: ethernet, "))
    plan = plan_of(found)
    hosts = {hca.host for hca in plan.hcas.values()}
    texts = {name: json.dumps(answer) for name, answer in answers(plan).items()}
    report = compared(found, [Told(name, text) for name, text in texts.items()])
    assert report.summary == "pod32: 512 of 512 planned cables are as planned, and nothing else was found"
    texts = {name: json.dumps(answer) for name, answer in answers(plan, *hosts).items()}
    report = compared(found, [Told(name, text) for name, text in texts.items()])
    assert report.summary == "pod32: 256 of 256 planned cables are as planned; findings: 1 partial"
    assert (report.worst, report.failed) == ("notice", False)
    del texts["gpu007"]
    texts["gpu005"] = texts["gpu005"].replace('"swp5"', '"swp6"')
    texts["gpu006"] = texts["gpu006"].replace('"swp6"', '"swp5"')
    report = compared(found, [Told(name, text) for name, text in texts.items()])
    assert report.counts == {"ok": 232, "swapped": 8, "partial": 1}
    assert "of 264 cables nothing is known, since neither end was asked; of hosts: gpu007" in report.table
    assert report.guids == "{}\n"


# The record.


def test_what_was_seen_is_recorded_and_a_replaced_adapter_told_and_then_recorded(tmp_path: Path):
    found = cluster(tmp_path)
    first = compared(found, told(seen(found)))
    keep(found, first.guids)
    assert compared(found, told(seen(found))) == first
    assert len(record.read(record.path_of(found.path))) == 268
    discovery = seen(found)
    other = ibnetdiscover_text(discovery).replace(node(discovery, "gpu005 mlx5_3").guid, "00000000000abc00")
    report = compared(found, [Told("fabric", other)])
    assert report.counts["replaced"] == 1
    assert '"gpu005 mlx5_3": {"node": "0x00000000000abc00"' in report.guids
    keep(found, report.guids)
    assert not compared(found, [Told("fabric", other)]).failed


def test_what_was_not_seen_keeps_its_guids_unless_another_has_them_now(tmp_path: Path):
    found = cluster(tmp_path)
    keep(found, compared(found, told(seen(found))).guids)
    before = record.read(record.path_of(found.path))
    discovery = seen(found)
    cut(discovery, "gpu005 mlx5_3")
    hca = node(discovery, "gpu005 mlx5_3")
    del discovery.nodes[hca.guid]
    report = compared(found, told(discovery))
    keep(found, report.guids)
    assert record.read(record.path_of(found.path)) == before
    # Its card is now in the host beside it.
    text = ibnetdiscover_text(discovery).replace(node(discovery, "gpu006 mlx5_3").guid, hca.guid)
    keep(found, compared(found, [Told("fabric", text)]).guids)
    after = record.read(record.path_of(found.path))
    assert after["gpu006 mlx5_3"]["node"] == hca.guid
    assert "gpu005 mlx5_3" not in after


def test_two_nodes_of_one_guid_are_not_recorded(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    text = ibnetdiscover_text(discovery)
    text = text.replace(node(discovery, "gpu005 mlx5_3").guid, node(discovery, "gpu006 mlx5_3").guid)
    report = compared(found, [Told("fabric", text)])
    assert report.counts["duplicate-guid"] == 1
    keep(found, report.guids)
    assert not {"gpu005 mlx5_3", "gpu006 mlx5_3"} & set(record.read(record.path_of(found.path)))


def test_a_record_that_cannot_be_read_stops_everything(tmp_path: Path):
    found = cluster(tmp_path)
    keep(found, '{"gpu001 mlx5_0": {"node": "x"}}')
    for call in (lambda: artefacts(found), lambda: compared(found, told(seen(found))), lambda: planned(found)):
        with pytest.raises(PlanError, match=r'pod.guids.json:1: "gpu001 mlx5_0": node is "x"'):
            call()


# Where to ask, and the topology of what is there.


def test_from_where_a_fabric_is_discovered(tmp_path: Path):
    assert sources(cluster(tmp_path)) == [{"name": "gpu001", "lldp": False, "ports": [{}]}]
    edits = (("kind: rail-optimised, ", "kind: rail-only, "), ('"spine[01-04]"', '"spine[01-08]"'))
    ports = [{"plane": f"rail{n}", "ca": f"mlx5_{n}"} for n in range(8)]
    assert sources(cluster(tmp_path, *edits)) == [{"name": "gpu001", "lldp": False, "ports": ports}]
    found = sources(cluster(tmp_path, ("kind: rail-optimised, ", "kind: rail-optimised, technology: ethernet, ")))
    assert [one["name"] for one in found] == [f"gpu{n:03}" for n in range(1, 33)]
    assert all(one["lldp"] for one in found)


def test_the_topology_of_what_is_there_needs_no_plan(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    bare = load(
        (tmp_path / "bare.bedplate.yml").write_text(POD[: POD.index("fabric: {")]) and tmp_path / "bare.bedplate.yml"
    )
    assert bare.fabric is None
    topology = of_discovered(bare, told(discovery))
    assert "Nodes=gpu[001-032]" in topology.files["slurm/topology.conf"]
    assert topology.summary == "pod32: 12 switches and 32 of 32 nodes were discovered"
    for hca in [one for one in discovery.nodes.values() if one.description.startswith("gpu012 ")]:
        del discovery.nodes[hca.guid]
        for box in discovery.nodes.values():
            box.cables = {port: cable for port, cable in box.cables.items() if cable.guid != hca.guid}
    lacking = of_discovered(bare, told(discovery)).table
    assert "gpu012: no HCA of it is in the fabric, so Slurm starts no job on it and others" in lacking
    assert "plan" not in lacking


# The playbooks.


def play(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("ansible-playbook")), *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def books(*names: str) -> list[str]:
    return [f"playbooks/{name}.yml" for name in names]


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
    assert "pod32: 512 of 512 planned cables are as planned, and nothing else was found" in done.stdout
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
    assert "-> swap with rack net1, su1-r3 port" in done.stdout
    assert {path.name for path in (tmp_path / "fabric/comparison").iterdir()} == {
        "findings.json", "findings.xml", "fabric.html",
    }  # fmt: skip
    assert not (tmp_path / "pod.guids.json").exists()


@pytest.mark.simulation
def test_mistakes_end_the_run_before_anything_is_written(tmp_path: Path):
    found = cluster(tmp_path, ("uplinks: 32", "uplinks: 8"))
    done = play(*books("fabric"), "-i", found.path)
    assert done.returncode == 2
    assert ": fabric.uplinks: rack net1, su1-r[0-7]: 32 cables from below and 8 up are 4.00 to 1" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["pod.bedplate.yml"]


@pytest.mark.playbooks
@pytest.mark.parametrize(
    ("name", "hint"), [("fabric_failon", "did you mean fabric_fail_on?"), ("fabric_zz", "allowed: fabric_directory, ")]
)
def test_a_variable_that_no_playbook_takes_is_refused_before_anything_is_read(name: str, hint: str, tmp_path: Path):
    found = cluster(tmp_path)
    done = play(
        *books("fabric_compare"), "-i", found.path, "-e", f"{name}=never", "-e", "fabric_saved=/nowhere", "-e", "x=1"
    )
    assert done.returncode == 2
    assert f"{name} is no variable of the playbooks of the fabric; {hint}" in done.stdout
    assert "/nowhere" not in done.stdout


def test_the_variables_are_those_of_the_playbooks_and_each_playbook_checks_them():
    texts = {book.stem: book.read_text() for book in ROOT.glob("playbooks/fabric*.yml")}
    assert {name for text in texts.values() for name in VARIABLE.findall(text)} == set(VARIABLES)
    begin = re.compile(r"import_playbook: (validate_fabric|fabric_discover)\.yml")
    assert all(begin.search(text) for text in texts.values())
    assert "import_playbook: validate_fabric.yml" in texts["fabric_discover"]


def test_the_check_says_how_much_it_simulates_and_how_long_that_takes(tmp_path: Path):
    plan = planned(cluster(tmp_path)).plan
    assert takes(plan) == ("OpenSM is at work on 256 HCAs and 12 switches that ibsim makes; this takes some seconds")
    many = replace(plan, hcas={f"gpu{n} mlx5_0": Hca(f"gpu{n}", "mlx5_0") for n in range(8192)})
    assert takes(many).endswith("this takes about 5 minutes, and twice that on busy cores")
    assert takes(replace(plan, technology="ethernet")) == "slurmctld reads the topology; this takes some seconds"


# The documentation.


def test_the_page_has_every_kind_of_finding_every_file_and_every_playbook(tmp_path: Path):
    text = (ROOT / "docs/fabric.md").read_text()
    table = text[text.index("<!-- kinds: begin -->") : text.index("<!-- kinds: end -->")]
    assert re.findall(r"^\| `(.+?)` \| (.+) \|$", table, re.MULTILINE) == list(KINDS.items())
    names = {name.rpartition("/")[2] for name in artefacts(cluster(tmp_path), "25.05")} - {"fabric.net"}
    assert not [name for name in names | EVERY - {"opensm-gpu002.conf"} if name not in text]
    variables = {name for book in ROOT.glob("playbooks/fabric*.yml") for name in VARIABLE.findall(book.read_text())}
    assert not [name for name in variables if name not in text]
    playbooks = {book.name for book in ROOT.glob("playbooks/fabric*.yml")} - {"fabric_discover.yml"}
    assert not [name for name in playbooks if name not in text]
