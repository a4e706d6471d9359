"""Names and time, as the machine makes them of all its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.drift import names_and_time
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.machine_facts import hosts_file, os_expected
from tests.unit.tuning.node import FILE

from .machine import Machine, summary

SERVERS = ["ntp1.example.org"]
Told = dict[str, Any]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    path = tmp_path / "c.bedplate.yml"
    path.write_text(FILE)
    return {**os_expected(load(path), "gpu1", SERVERS, True), "text": hosts_file(load(path))}


@pytest.fixture
def machine(tmp_path: Path, told: Told) -> Machine:
    (tmp_path / "node").mkdir()
    one = Machine(tmp_path / "node")
    one.put("etc/hosts", told["text"])
    one.put("etc/hostname", "gpu1\n")
    one.put("proc/sys/kernel/hostname", "gpu1.example.org\n")
    one.put("etc/nsswitch.conf", "passwd: files\nhosts: files dns # names\n")
    one.put("etc/chrony/chrony.conf", "confdir /etc/chrony/conf.d\nsourcedir /etc/chrony/sources.d\n")
    one.put("etc/chrony/sources.d/bedplate.sources", "server ntp1.example.org iburst\n")
    return one


CHANGES: dict[str, tuple[Callable[[Machine], object], list[tuple[str, str, str]]]] = {
    "a line above ours": (
        lambda one: one.put("etc/hosts", f"10.9.9.9 ctl1\n{(one.top / 'etc/hosts').read_text()}"),
        [("hosts", "address of ctl1", "/etc/hosts:1")],
    ),
    "DNS first": (
        lambda one: one.put("etc/nsswitch.conf", "passwd: files\nhosts: dns files\n"),
        [("hosts-order", "order of names", "/etc/nsswitch.conf:2")],
    ),
    "another name": (lambda one: one.put("etc/hostname", "node7\n"), [("hostname", "name of the machine (/etc/hostname)", "")]),
    "another name in the kernel": (
        lambda one: one.put("proc/sys/kernel/hostname", "node7\n"), [("hostname", "name of the machine (/proc/sys/kernel/hostname)", "")],
    ),
    "DNS alone, below a blank line": (
        lambda one: one.put("etc/nsswitch.conf", "\nhosts: dns\n"), [("hosts-order", "order of names", "/etc/nsswitch.conf:2")],
    ),
    "a peer": (
        lambda one: one.put("etc/chrony/conf.d/site.conf", "peer ntp7\nrefclock PHC /dev/ptp0\nserver ntp1.example.org\n"),
        [("time-sources", "chrony's sources", f"/etc/chrony/conf.d/site.conf:{number}") for number in (1, 2)],
    ),
    "a server beside": (
        lambda one: one.put("etc/chrony/conf.d/site.conf", "# x\nserver 10.0.0.1 iburst prefer\n"),
        [("time-sources", "chrony's sources", "/etc/chrony/conf.d/site.conf:2")],
    ),
    "sources that are not read": (
        lambda one: one.put("etc/chrony/chrony.conf", "#sourcedir /etc/chrony/sources.d\n"),
        [("time-sources", "chrony's sourcedir", "/etc/chrony/chrony.conf:1")],
    ),
}  # fmt: skip


def test_a_machine_as_it_is_to_be_is_silent(machine: Machine, told: Told) -> None:
    assert summary(names_and_time.findings(machine.root, told)) == []


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_named_alone(name: str, machine: Machine, told: Told) -> None:
    change, findings = CHANGES[name]
    change(machine)
    assert summary(names_and_time.findings(machine.root, told)) == findings


def test_what_a_site_does_not_want_managed_is_not_compared(machine: Machine, tmp_path: Path) -> None:
    told = os_expected(load(tmp_path / "c.bedplate.yml"), "ctl1", [], False)
    for name in CHANGES:
        CHANGES[name][0](machine)
    assert summary(names_and_time.findings(machine.root, told)) == []


def test_addresses_of_the_other_family_and_a_machine_without_names_are_silent(machine: Machine, told: Told) -> None:
    machine.put("etc/hosts", f"fd00::9 ctl1\n{told['text']}")
    machine.put("etc/hostname", "")
    assert summary(names_and_time.findings(machine.root, told)) == []
