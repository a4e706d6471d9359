"""provision.yml by ansible-playbook, over simulated BMCs, the real order server, and stand-ins for ssh and Slurm."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import NodeStates
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from tests.unit.provision.site import InstalledSite, Services, services

pytestmark = [pytest.mark.playbooks, pytest.mark.tools("xorriso")]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services(tmp_path_factory.mktemp("services")) as running:
        yield running


@pytest.fixture
def installed(tmp_path: Path, given: Services) -> InstalledSite:
    # Progress is by node, and each site has the same nodes.
    shutil.rmtree(given.host.folder / "states", ignore_errors=True)
    return InstalledSite(tmp_path, given)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_mistakes_and_a_job_refuse(installed: InstalledSite) -> None:
    site = installed.site
    site.record("gpu02")
    done = installed.play(provision_wipe="gpu03", provision_authorized_keys="/nowhere")
    text = flat(done.stdout)
    assert done.returncode == 2
    for says in ("gpu02: serial, boot_mac, disk_serial, bmc_fingerprint not on record", "gpu03 not in", "/nowhere"):
        assert says in text
    assert all(bmc.state()["log"] == [] for bmc in site.bmcs.values())
    site.record()
    (site.programs / "squeue").write_text("#!/bin/sh\necho '12|RUNNING|gpu01|1:00:00'\n")
    done = installed.play()
    assert done.returncode == 2
    assert "gpu01: job 12 on it" in flat(done.stdout)
    assert installed.events("gpu01") == []
    # Slurm's answer precedes each request, and the node was not drained.
    assert site.bmcs["gpu01"].state()["log"] == []
    assert "State=IDLE\n" in installed.slurm
    assert installed.events("gpu02")[-1].startswith("system ")


def test_a_persons_drain_and_a_wrong_serial_number(installed: InstalledSite) -> None:
    site = installed.site
    line = "NodeName=gpu01 NodeHostName=gpu01 State=IDLE+DRAIN Reason=fan is loud [ann@2026-11-28T10:00:00]\n"
    (site.folder / "nodes").write_text(line)
    site.bmcs["gpu02"].faults(serial="SN-OTHER")
    done = installed.play()
    assert done.returncode == 2
    text = flat(done.stdout)
    assert "fan is loud" in text
    assert "SN-OTHER" in text
    assert installed.slurm == line
    assert site.writes() == []
    assert written("provision", "orders", "x").startswith("bedplate:provision:orders:")


def test_a_node_that_a_person_resumes_before_the_reset_is_not_reset(installed: InstalledSite) -> None:
    scontrol = installed.site.programs / "scontrol"
    # Once an order is open, somebody resumes the node.
    armed = f"ls {installed.host.folder}/states/gpu01.json >/dev/null 2>&1 && grep -q armed {installed.host.folder}/states/gpu01.json"
    resumed = f"sed -i 's/State=.*/State=IDLE/' {installed.site.folder}/nodes"
    scontrol.write_text(scontrol.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\nif {armed}; then {resumed}; fi\n"))
    done = installed.play(provision_nodes="gpu01")
    assert done.returncode == 2
    assert "Only nodes that this run drains are installed" in flat(done.stdout)
    assert not any("Reset" in one for one in installed.site.writes())
    assert [one for one in installed.events("gpu01") if one.startswith("write")] == []
    states = NodeStates(installed.host.folder / "states")
    found = states.read("gpu01")
    assert found is not None
    assert (found.state, found.holder) == ("refused", "")


def test_a_node_that_another_run_holds_is_neither_drained_nor_resumed(installed: InstalledSite) -> None:
    own = written("provision", "orders", "installs image x")
    line = f"NodeName=gpu01 NodeHostName=gpu01 State=IDLE+DRAIN Reason={own} [root@2026-11-28T10:00:00]\n"
    (installed.site.folder / "nodes").write_text(line)
    NodeStates(installed.host.folder / "states").hold(["gpu01"], "elsewhere:1:2:3:4", time.time() + 600)
    done = installed.play(provision_nodes="gpu01")
    assert done.returncode == 2
    assert "another run works on it: elsewhere:1:2:3:4" in flat(done.stdout)
    assert installed.slurm == line
    assert installed.site.writes() == []


def at(installed: InstalledSite, where: str, command: str) -> None:
    """Run a shell command once when scontrol is called and a condition of the shell holds."""
    scontrol, done = installed.site.programs / "scontrol", installed.site.folder / "done"
    hook = f"if [ ! -e {done} ] && {where}; then touch {done}; {command}; fi"
    scontrol.write_text(scontrol.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{hook}\n"))


def other_disk(installed: InstalledSite, node: str) -> str:
    """Return a shell command that records another disk for a node."""
    disk = installed.site.recorded[node]["disk_serial"]
    return f'sed -i \'s/"{disk}"/"D-OTHER"/\' {installed.site.record_file}'


@pytest.mark.parametrize("when", ["drain", "armed"])
def test_a_record_that_changes_after_the_plan_refuses_its_node(when: str, installed: InstalledSite) -> None:
    state = installed.host.folder / "states/gpu01.json"
    where = {"drain": 'case "$*" in *State=DRAIN*) true ;; *) false ;; esac', "armed": f"grep -qs armed {state}"}[when]
    at(installed, where, other_disk(installed, "gpu01"))
    done = installed.play(provision_nodes="gpu01", provision_wipe="gpu01")
    assert done.returncode == 2
    assert "changed since the plan was made. Run again" in flat(done.stdout)
    assert not (installed.host.folder / "orders/nodes/gpu01").exists()
    assert not any("Reset" in one for one in installed.site.writes())
    bmc = installed.site.bmcs["gpu01"].state()
    assert (set(bmc["media"].values()), bmc["boot"]["BootSourceOverrideEnabled"]) == ({""}, "Disabled")
    assert ("State=IDLE\n" in installed.slurm) == (when == "drain")


def test_the_order_of_a_killed_run_is_closed_if_its_machine_is_not_fit_any_more(installed: InstalledSite) -> None:
    site, state = installed.site, installed.host.folder / "states/gpu01.json"
    # The holder has the number of the process of the run.
    at(installed, f"grep -qs armed {state}", f'kill -9 $(grep -o \'"holder": "[^"]*\' {state} | cut -d: -f3)')
    installed.play(provision_nodes="gpu01")
    assert NodeStates(state.parent).read("gpu01").state == "armed"  # type: ignore[union-attr]
    assert any(site.bmcs["gpu01"].state()["media"].values())
    site.record(gpu01={"disk_serial": "D-OTHER"})
    site.bmcs["gpu01"].change(power="On")
    done = installed.play(provision_nodes="gpu01")
    assert done.returncode == 2
    assert "gpu01: the machine is on, so it may run an operating system" in flat(done.stdout)
    bmc = site.bmcs["gpu01"].state()
    assert (set(bmc["media"].values()), bmc["boot"]["BootSourceOverrideEnabled"]) == ({""}, "Disabled")
    assert not (installed.host.folder / "orders/nodes/gpu01").exists()
    assert NodeStates(state.parent).read("gpu01").state == "refused"  # type: ignore[union-attr]


def test_a_node_that_a_killed_run_has_only_drained_goes_back_to_slurm(installed: InstalledSite) -> None:
    own = written("provision", "orders", "installs image x")
    line = f"NodeName=gpu01 NodeHostName=gpu01 State=IDLE+DRAIN Reason={own} [root@2026-11-28T10:00:00]\n"
    (installed.site.folder / "nodes").write_text(line)
    installed.site.bmcs["gpu01"].faults(serial="SN-OTHER")
    done = installed.play(provision_nodes="gpu01")
    assert done.returncode == 2
    assert "SN-OTHER" in flat(done.stdout)
    assert "State=IDLE\n" in installed.slurm
