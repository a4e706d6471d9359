"""What update-grub would write: files of others that are read after ours, or that nobody has run it for, are named."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import next_cmdline
from tests.drift.node import KINDS, fields, judge
from tests.unit.tuning.machines import Machine, debian

WANTED = ["iommu=pt", "hugepagesz=2M", "hugepages=0:16,1:8", "audit=0"]
ROWS = [row for row in KINDS if row["id"].startswith("grub-")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    one = debian(tmp_path)
    one.apply(*WANTED)
    return one


def read(machine: Machine) -> list[Any]:
    return list(next_cmdline.findings(Root(str(machine.root)), WANTED))


def shell(machine: Machine, command: str) -> None:
    subprocess.run(["sh", "-ec", command.replace("/etc/", f"{machine.root}/etc/")], check=True)


def rows(found: list[Any]) -> set[tuple[str, ...]]:
    return fields([vars(one) for one in found])


def test_a_boot_loader_as_it_is_to_be_is_silent(machine: Machine) -> None:
    assert read(machine) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_drift_is_named_with_who_overrides(machine: Machine, row: Mapping[str, Any]) -> None:
    shell(machine, row["make"])
    found = read(machine)
    named, others = judge(row, set(), rows(found))
    assert len(named) == 1, found
    assert not others
    # What update-grub has not been run for is somebody's intent.
    assert {one.severity for one in found} == {WARNING if row["kind"] == "boot-stale" else ERROR}
    shell(machine, row["undo"])
    assert read(machine) == []


def test_settings_that_no_shell_can_read_are_a_finding(machine: Machine) -> None:
    machine.put("etc/default/grub.d/90-site.cfg", "GRUB_CMDLINE_LINUX='x\n")
    (found,) = read(machine)
    assert (found.kind, "/90-site.cfg" in found.found) == ("boot-settings", True)
