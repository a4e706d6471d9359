# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks that command BMCs, run by ansible-playbook over simulated BMCs. No output has a secret."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.unit.bmc.site import Site

pytestmark = pytest.mark.playbooks
DRAINED = "IDLE+DRAIN Reason=fan is loud [ann@2026-11-28T10:00:00]"


def flat(text: str) -> str:
    return " ".join(text.split())


def test_discover_records_new_machines_once(site: Site) -> None:
    done = site.play("bmc_discover")
    assert done.returncode == 2, done.stdout
    assert "4 BMCs: 4 unknown" in done.stdout
    assert all(bmc.state()["log"] == [] for bmc in site.bmcs.values())
    check = site.play("bmc_discover", "--check", "--diff", bmc_record=True)
    assert check.returncode == 0, check.stdout
    assert '+  "gpu01": {"serial": "SN' in check.stdout
    assert not site.record_file.exists()
    made = site.play("bmc_discover", "-vvvv", bmc_record=True)
    assert made.returncode == 0, made.stdout
    assert "changed=1" in made.stdout
    assert f"gpu01 {site.bmcs['gpu01'].fingerprint}" in made.stdout
    assert {node: one["serial"] for node, one in site.recorded.items()} == {
        node: site.spec(node)["serial"] for node in site.names
    }
    again = site.play("bmc_discover", bmc_record=True)
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout
    assert site.writes() == []


def test_discover_reports_what_differs_and_fails(site: Site) -> None:
    site.record(gpu03={"disk_serial": "OLD"})
    before = site.record_file.read_text()
    serials = [site.spec(node)["serial"] for node in ("gpu01", "gpu02")]
    for node, serial in zip(("gpu02", "gpu01"), serials, strict=True):
        site.bmcs[node].faults(serial=serial, echo_secrets=True)
    site.bmcs["gpu04"].change(password="another-canary")
    done = site.play("bmc_discover", "-vvvv", bmc_record=True)
    assert done.returncode == 2
    assert "4 BMCs: 2 swapped, 1 different, 1 unread" in done.stdout
    assert "HTTP 401" in done.stdout
    assert "changed=0" in done.stdout
    assert site.record_file.read_text() == before
    report = site.report("bmc_discover")
    states = {node: one["state"] for node, one in report["machines"].items()}
    assert states == {"gpu01": "swapped", "gpu02": "swapped", "gpu03": "different", "gpu04": "unread"}
    suite = ElementTree.parse(site.reports / "bmc_discover.xml").getroot()
    assert suite.get("failures") == "4"
    files = "".join(path.read_text() for path in site.reports.iterdir())
    assert "canary" not in files
    assert site.writes() == []


def test_a_limit_narrows_and_mistakes_end_the_run(site: Site) -> None:
    done = site.play("bmc_discover", "--limit", "gpu02")
    assert "1 BMCs: 1 unknown" in done.stdout
    done = site.play("bmc_discover", bmc_recrod=True)
    assert done.returncode == 2
    assert "did you mean bmc_record?" in flat(done.stdout)
    done = site.play("bmc_discover", "--limit", "ctl1")
    assert "--limit leaves no machine with a BMC address" in flat(done.stdout)
    site.record_file.write_text('{"format": 1, "about": "", "machines": {"gpu09": {}}}')
    done = site.play("bmc_discover")
    assert done.returncode == 2
    assert "c.machines.json:1: gpu09: not in the cluster file." in done.stdout


def test_power_of_drained_nodes_is_changed_once(site: Site) -> None:
    site.record()
    site.slurm({"gpu01": DRAINED, "gpu02": DRAINED, "gpu03": "IDLE"})
    order = {"power": "off", "power_nodes": "gpu[01-02,04]", "power_graceful": 0}
    check = site.play("power", "--check", "--diff", **order)
    assert check.returncode == 0, check.stdout
    assert "gpu[01-02,04]: would change from on to off" in check.stdout
    assert re.search(r"^\+gpu04: off", check.stdout, re.MULTILINE)
    assert site.writes() == []
    done = site.play("power", "-vvvv", **order)
    assert done.returncode == 0, done.stdout
    assert [one.state()["power"] for one in site.bmcs.values()] == ["Off", "Off", "On", "Off"]
    site.forget()
    again = site.play("power", **order)
    assert "gpu[01-02,04]: is off" in again.stdout
    assert "changed=0" in again.stdout
    assert site.writes() == []
    cycle = site.play("power", power="cycle", power_nodes="gpu01")
    assert cycle.returncode == 2
    assert "no power to cycle. Use -e power=on." in flat(cycle.stdout)
    assert site.writes() == []


def test_power_is_refused_as_a_whole_while_slurm_may_use_a_node(site: Site) -> None:
    site.record()
    site.slurm({"gpu01": DRAINED, "gpu02": "ALLOCATED", "gpu03": "IDLE"}, "12|RUNNING|gpu02|1:00:00")
    done = site.play("power", power="off", power_nodes="gpu[01-03]")
    assert done.returncode == 2
    text = flat(done.stdout)
    assert "Nothing was changed: gpu02: ALLOCATED: job 12 on it." in text
    assert "gpu03: IDLE: not drained." in text
    silent = site.play("power", power="cycle", power_nodes="gpu01", ansible_python_interpreter="/nowhere/python")
    assert silent.returncode == 2
    assert "gpu01: Slurm does not answer, so jobs may use them" in flat(silent.stdout)
    assert all(bmc.state()["log"] == [] for bmc in site.bmcs.values())


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ({}, "power is missing; allowed: on, off, cycle."),
        ({"power": "on"}, "power_nodes is missing; allowed: names of nodes"),
        ({"power": "on", "power_nodes": "all"}, "power_nodes: 'all' is not allowed"),
    ],
)
def test_power_needs_names(order: dict[str, str], says: str, site: Site) -> None:
    done = site.play("power", **order)
    assert done.returncode == 2
    assert says in flat(done.stdout)
    assert all(bmc.state()["log"] == [] for bmc in site.bmcs.values())


@pytest.mark.parametrize(
    ("playbook", "variables", "says"),
    [
        (
            "power",
            {"powr": "off", "power_nodes": "gpu09"},
            ["did you mean power?", "power is missing", "gpu09: not a node"],
        ),
        ("firmware", {"frmware_wave": 2}, ["did you mean firmware_wave?"]),
        ("bios", {"bcm_port": 1}, ["did you mean bmc_port?"]),
        (
            "bmc_discover",
            {"bmc_prt": 1, "slurm_rest_listn": "x"},
            ["did you mean bmc_port?", "did you mean slurm_rest_listen?"],
        ),
        ("bmc_commission", {"bmc_node": "gpu01"}, ["did you mean bmc_nodes?", "bmc_nodes is missing"]),
        (
            "provision",
            {"provsion_wipe": "gpu01", "bmc_prt": 1},
            ["did you mean provision_wipe?", "did you mean bmc_port?"],
        ),
        ("import_machines", {"imprt_from": "csv:x"}, ["did you mean import_from?"]),
    ],
)
def test_all_misspelt_variables_are_in_one_error(
    playbook: str, variables: dict[str, object], says: list[str], site: Site
) -> None:
    done = site.play(playbook, **variables)
    text = flat(done.stdout)
    assert done.returncode == 2
    assert [one for one in says if one not in text] == []
    assert text.count("FAILED!") == 1
    assert all(bmc.state()["log"] == [] for bmc in site.bmcs.values())


def test_firmware_and_bios_are_compared(site: Site) -> None:
    site.record()
    for folder, text in (
        ("firmware", "components: {BMC: '2.1.0'}\n"),
        ("bios", "bios_version: '1.2*'\nattributes: {ProcHyperthreading: Enabled}\n"),
    ):
        (site.folder / folder).mkdir()
        (site.folder / folder / "sim.yml").write_text(text)
    site.write_cluster({"firmware": "sim", "bios": "sim"})
    done = site.play("firmware", "-vvvv", firmware_wave=3)
    assert done.returncode == 2
    assert "firmware: 0 of 4 machines have no difference" in done.stdout
    assert "wave 1 bmc   gpu[01-03]: BMC" in done.stdout
    assert [one["number"] for one in site.report("firmware")["waves"]] == [1, 2]
    done = site.play("bios")
    assert done.returncode == 0, done.stdout
    assert "BIOS: 4 of 4 machines have no difference" in done.stdout
    assert ElementTree.parse(site.reports / "bios.xml").getroot().get("failures") == "0"
    assert site.writes() == []
