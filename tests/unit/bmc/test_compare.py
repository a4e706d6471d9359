# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparisons of firmware and BIOS over simulated BMCs: files of the site, findings, waves, one registry for all machines of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import compare_report, compare_run
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import Accounts
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_contact import Contact, contact
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Reach, Target, targets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.compare_run import Compared, Registries
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import ProfileError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.attribute_registry import NO_REGISTRY
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Limits
from tests.unit.bmc.site import Site

BOUNDS = {"firmware_wave": 2, "firmware_per_rack": None, "firmware_per_partition": None}
QUICK = Limits(answer_s=5, attempts=2, first_delay_s=0.05)


def prepared(site: Site, subject: str, text: str) -> Cluster:
    folder = site.folder / subject
    folder.mkdir()
    (folder / "sim.yml").write_text(text)
    site.write_cluster({subject: "sim"})
    return load(str(site.cluster_file))


def compared(site: Site, cluster: Cluster, subject: str) -> tuple[dict[str, Contact[Compared]], dict[str, Target]]:
    record = {
        node: Machine(serial=site.spec(node)["serial"], bmc_fingerprint=bmc.fingerprint)
        for node, bmc in site.bmcs.items()
    }
    targets = {name: one for name, one in targets_of(cluster, record).items() if one.profile}
    profiles = compare_run.profiles_of(targets, subject, cluster.path)
    accounts = Accounts(dict.fromkeys(targets, Account("root", "factory-canary")), {})
    function = compare_run.comparison(targets, profiles, subject)
    return contact(targets.values(), accounts, Reach(site.port, limits=QUICK), function), targets


def test_firmware_older_than_the_profile_is_a_finding_and_in_a_wave(site: Site) -> None:
    cluster = prepared(site, "firmware", "components:\n  BMC: '2.1.0'\n  BIOS: '1.2.3'\n")
    site.bmcs["gpu03"].change(bmc_firmware="2.1.0")
    contacts, targets = compared(site, cluster, "firmware")
    findings = compare_report.findings_of(targets, contacts)
    assert [(one.machine, one.where, one.expected) for one in findings] == [
        (node, "firmware BMC", "2.1.0") for node in ("gpu01", "gpu02", "gpu04")
    ]
    text = compare_report.summary("firmware", contacts, findings, targets, [])
    assert text.startswith(
        "firmware: 1 of 4 machines have no difference\nERROR  firmware  gpu[01-02,04]  firmware BMC  "
    )
    plan = compare_report.waves_of(cluster, contacts, BOUNDS)
    assert compare_report.wave_lines(plan) == [
        "plan, nothing is applied:",
        "wave 1 bmc   gpu[01-02]: BMC",
        "wave 2 bmc   gpu04: BMC",
    ]
    data = compare_report.data_of("c", contacts, targets, plan)
    assert data["machines"]["gpu03"]["firmware"] == {"BMC": "2.1.0", "BIOS": "1.2.3"}
    assert data["waves"][1]["nodes"] == {"gpu04": ["BMC"]}
    assert site.writes() == []


def test_a_component_that_no_item_matches_is_in_no_wave(site: Site) -> None:
    cluster = prepared(site, "firmware", "components: {CPLD*: '7'}\n")
    contacts, targets = compared(site, cluster, "firmware")
    assert [one.severity for one in compare_report.findings_of(targets, contacts)] == ["warning"] * 4
    lines = compare_report.wave_lines(compare_report.waves_of(cluster, contacts, BOUNDS))
    assert lines[1:] == ["in no wave: gpu[01-04]: CPLD*: no item of the inventory matches"]


def test_bios_attributes_are_compared_one_by_one(site: Site) -> None:
    text = "bios_version: '1.2*'\nattributes: {SriovEnable: Enabled, ProcHyperthreading: Enabled}\n"
    cluster = prepared(site, "bios", text)
    contacts, targets = compared(site, cluster, "bios")
    findings = compare_report.findings_of(targets, contacts)
    assert [(one.machine, one.where) for one in findings] == [
        (node, "BIOS attribute SriovEnable") for node in site.names
    ]
    text = compare_report.summary("bios", contacts, findings, targets, ["gpu09"])
    assert text.startswith("BIOS: 0 of 4 machines have no difference; 1 have no `bios` in their profile\n")
    assert len(text.splitlines()) == 2
    assert site.writes() == []


def test_another_machine_and_a_silent_bmc_are_not_compared(site: Site) -> None:
    cluster = prepared(site, "firmware", "components: {BMC: '2.0.1'}\n")
    site.bmcs["gpu01"].faults(serial="SN-OTHER")
    site.bmcs["gpu02"].faults(broken=["Systems"])
    contacts, targets = compared(site, cluster, "firmware")
    findings = compare_report.findings_of(targets, contacts)
    assert [(one.machine, one.kind) for one in findings] == [("gpu01", "bmc-different"), ("gpu02", "bmc-unread")]
    text = compare_report.summary("firmware", contacts, findings, targets, [])
    assert text.startswith("firmware: 2 of 4 machines have no difference, 2 could not be compared\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("components: {BMC: 2.1}\n", "components.BMC.version: 2.1 is not a version"),
        ("components: [", "is not YAML"),
        ("components: {BMC: 'a', BMC: 'b'}\n", "sim.yml:1: components.BMC"),
        ("component: {BMC: 'a'}\n", "key 'component' is unknown"),
    ],
)
def test_mistakes_of_a_file_name_it(text: str, says: str, site: Site) -> None:
    cluster = prepared(site, "firmware", text)
    with pytest.raises(ProfileError) as caught:
        compared(site, cluster, "firmware")
    assert str(site.folder / "firmware/sim.yml") in caught.value.mistakes[0]
    assert any(says in one for one in caught.value.mistakes), caught.value.mistakes


def test_a_registry_is_read_once_for_machines_of_one_model_and_again_after_a_failure() -> None:
    known, calls = Registries(), []

    def read(fails: bool = False) -> Any:
        calls.append(1)
        if fails:
            raise RuntimeError("the BMC failed")
        return NO_REGISTRY

    with pytest.raises(RuntimeError):
        known.of(("a",), lambda: read(fails=True))
    assert [known.of((key,), read) for key in ("a", "a", "b")] == [NO_REGISTRY] * 3
    assert len(calls) == 3


def test_files_that_no_machine_needs_are_not_read(tmp_path: Path) -> None:
    assert compare_run.profiles_of({"ctl1": Target("ctl1", "10.1.0.1")}, "bios", str(tmp_path / "c.bedplate.yml")) == {}
