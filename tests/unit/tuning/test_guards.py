# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a node bootable and its settings in force: order of units, modes of boot files, data on disk before names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.kernel import sysctl
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import boot_files
from tests.unit.rdma import machine as rdma
from tests.unit.tuning.node import FILE, deployed


def directives(told: dict[str, Any], unit: str) -> dict[tuple[str, str], str]:
    """Return (section, name) -> value of a unit's file."""
    text = next(entry["content"] for entry in told["files"] if entry["path"].endswith(f"/{unit}"))
    found, section = {}, ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[section, name] = value
    return found


def test_slurmd_starts_on_a_node_that_is_tuned(tmp_path: Path) -> None:
    found = directives(deployed(tmp_path), "bedplate-tuning.service")
    assert "slurmd.service" in found["Unit", "Before"].split()


def test_slurmd_starts_on_a_node_whose_rails_have_addresses(tmp_path: Path) -> None:
    found = directives(rdma.deployed(tmp_path), "bedplate-rdma.service")
    assert "slurmd.service" in found["Unit", "Before"].split()


def test_devices_that_come_one_after_the_other_do_not_exhaust_the_starts_of_the_unit(tmp_path: Path) -> None:
    assert directives(rdma.deployed(tmp_path), "bedplate-rdma.service")["Unit", "StartLimitIntervalSec"] == "0"


@pytest.mark.parametrize(("model", "off"), [("h100", True), ("h200", True), ("b300", False)])
def test_acs_stays_on_where_nics_are_switches_too(tmp_path: Path, model: str, off: bool) -> None:
    told = deployed(tmp_path, text=FILE.replace("h100", model))
    assert told["expected"]["settings"]["acs_off"] is off


def test_a_new_boot_file_can_be_read_by_all_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    new, old = tmp_path / "loader/new.conf", tmp_path / "old.cfg"
    old.write_text("old\n")
    old.chmod(0o640)
    before = os.umask(0o077)
    try:
        boot_files.Writer().write({new: "new\n", old: "other\n"})
    finally:
        os.umask(before)
    assert (new.stat().st_mode & 0o777, old.stat().st_mode & 0o777) == (0o644, 0o640)
    assert (new.read_text(), old.read_text()) == ("new\n", "other\n")


def test_a_boot_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / "grub.cfg", []

    def fsync(descriptor: int) -> None:
        file = Path(f"/proc/self/fd/{descriptor}")
        synced.append((b"" if file.is_dir() else file.read_bytes(), path.read_text()))

    path.write_text("old\n")
    monkeypatch.setattr(os, "fsync", fsync)
    boot_files.Writer().write({path: "new\n"})
    # The content first; then the directory, which has the name.
    assert synced == [(b"new\n", "old\n"), (b"", "new\n")]
    assert path.read_text() == "new\n"


def test_a_file_of_etc_hides_one_of_its_name_and_a_later_name_wins(tmp_path: Path) -> None:
    for path, value in {
        "usr/lib/sysctl.d/70-site.conf": 3,
        "run/sysctl.d/70-site.conf": 2,
        "etc/sysctl.d/70-site.conf": 1,
        "usr/lib/sysctl.d/50-default.conf": 9,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"vm.swappiness = {value}\n")
    found = list(sysctl.conflicts(Root(str(tmp_path)), {"vm.swappiness": "10"}))
    named = [one.overridden_by for one in found]
    assert "/etc/sysctl.d/70-site.conf:1" in named
    assert not any("run/" in name or "usr/lib/sysctl.d/70" in name for name in named)
    # The file that is read last, and so wins, is the last one that is named.
    assert named[-1] == "/etc/sysctl.d/70-site.conf:1"
