# SPDX-License-Identifier: GPL-3.0-or-later
"""The module os_packages: what it installs, what it leaves for the next time, and what it does in check mode and after an error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import snapshot_view, upgrades
from ansible_collections.bedplate.cluster.plugins.modules import os_packages
from tests.kit.module import Module, result_of

OFFERED = """\
Inst zip [3.0-13] (3.0-13+deb12u1 Debian:12.15/oldstable [amd64])
Inst linux-image-amd64 [6.1.137-1] (6.1.140-1 Debian:12.15/oldstable [amd64])
"""
ZIP, KERNEL = "zip 3.0-13+deb12u1", "linux-image-amd64 6.1.140-1"


class Machine:
    """A machine with apt-get or dnf: it prints what is offered, and keeps the commands. `needed` is what an installation needs as well."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, note: Path) -> None:
        self.manager, self.offered, self.needed, self.broken = "apt-get", OFFERED, "", ""
        self.note, self.commands = note, list[list[str]]()
        self._monkeypatch = monkeypatch
        monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name == self.manager else None)
        monkeypatch.setattr(upgrades.command, "run", self._run)

    def _run(self, argv: Sequence[str], *_: object, **__: object) -> Outcome:
        self.commands.append(list(argv))
        if self.broken and self.broken in argv:
            return Outcome(100, "", "E: Could not get lock\n")
        listed = argv[-1] in ("upgrade", "--upgrades")
        return Outcome(0, self.offered if listed else self.needed if "--simulate" in argv else "", "")

    def upgrade(self, check: bool = False, **params: Any) -> dict[str, Any]:
        """Run the module, and return its result."""
        module = Module({"refresh": False, "only": None, "snapshot": None, "note": str(self.note), **params}, check)
        return result_of(self._monkeypatch, os_packages, module)

    @property
    def simulated(self) -> list[list[str]]:
        """Return each simulated installation, without `--simulate`."""
        found = [command for command in self.commands if {"--simulate", "install"} <= set(command)]
        return [[word for word in command if word != "--simulate"] for command in found]

    @property
    def installed(self) -> list[list[str]]:
        """Return the commands that install packages."""
        installs = [command for command in self.commands if {"--yes", "--assumeyes"} & set(command)]
        return [command for command in installs if "--simulate" not in command]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "packages")


def test_all_that_is_offered_is_installed(machine: Machine):
    assert machine.upgrade() == {
        "changed": True,
        "installed": [ZIP, KERNEL],
        "security": [],
        "removed": [],
        "newer": [],
        "reboot_wanted": True,
    }
    (command,) = machine.installed
    assert command[command.index("install") + 1 :] == ["zip=3.0-13+deb12u1", "linux-image-amd64=6.1.140-1"]
    assert machine.note.read_text() == f"{KERNEL} boots next\n"


def test_what_is_not_in_only_is_neither_installed_nor_a_reason_for_a_reboot(machine: Machine):
    found = machine.upgrade(only=[ZIP])
    assert found == {
        "changed": True,
        "installed": [ZIP],
        "security": [],
        "removed": [],
        "newer": [KERNEL],
        "reboot_wanted": False,
    }
    (command,) = machine.installed
    # apt would install a newer kernel as a dependency: by name the version of now stays.
    assert command[command.index("install") + 1 :] == ["zip=3.0-13+deb12u1", "linux-image-amd64=6.1.137-1"]
    assert machine.simulated == [command]
    assert not machine.note.exists()


def test_dnf_leaves_out_what_is_not_in_only(machine: Machine):
    machine.manager = "dnf"
    machine.offered = "bash.x86_64  5.1.8-9.el9  baseos\nkernel-core.x86_64  5.14.0-611.el9  baseos\n"
    assert machine.upgrade(only=["bash 5.1.8-9.el9"])["newer"] == ["kernel-core 5.14.0-611.el9"]
    (command,) = machine.installed
    assert command[-3:] == ["--exclude=kernel-core", "upgrade", "bash"]


def test_an_upgrade_that_needs_a_newer_slurm_is_refused_before_anything_is_written(machine: Machine):
    machine.needed = "Inst slurmd [24.11.1] (24.11.5 site [amd64])\n"
    found = machine.upgrade()
    assert found["failed"]
    assert found["msg"].startswith("packages: the upgrades would also install slurmd 24.11.5")
    assert (machine.installed, machine.note.exists()) == ([], False)


def test_check_mode_lists_upgrades_and_installs_and_notes_nothing(machine: Machine):
    assert machine.upgrade(check=True) == {
        "changed": True,
        "installed": [ZIP, KERNEL],
        "security": [],
        "removed": [],
        "newer": [],
        "reboot_wanted": True,
    }
    assert (machine.installed, machine.note.exists()) == ([], False)


def test_without_an_upgrade_nothing_is_installed(machine: Machine):
    machine.offered = ""
    assert machine.upgrade() == {
        "changed": False,
        "installed": [],
        "security": [],
        "removed": [],
        "newer": [],
        "reboot_wanted": False,
    }
    assert machine.installed == []


@pytest.mark.parametrize("check", [False, True])
def test_lists_are_read_first_also_in_check_mode(machine: Machine, check: bool):
    machine.upgrade(check)
    assert not [command for command in machine.commands if command[-1] == "update"]
    machine.commands.clear()
    machine.upgrade(check, refresh=True)
    assert [command[-1] for command in machine.commands[:2]] == ["update", "upgrade"]


@pytest.mark.parametrize("step", ["update", "upgrade", "install"])
def test_a_package_manager_that_fails_is_a_failure(machine: Machine, step: str):
    machine.broken = step
    assert machine.upgrade(refresh=True) == {"failed": True, "msg": "packages: E: Could not get lock"}


def test_with_a_snapshot_its_sources_alone_count_and_what_only_another_one_has_goes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    view = snapshot_view.SnapshotView(upgrades.patient, tmp_path / "view")
    monkeypatch.setattr(snapshot_view, "SnapshotView", lambda _run: view)
    machine.offered, machine.needed = (
        "Inst zip [3.0-14] (3.0-13 bedplate:2026-11-20/system [all])\n",
        "Remv libnew [1]\n",
    )
    files = {"sources.d/snapshot-system.sources": "Types: deb\n", "preferences": "Package: *\n"}
    found = machine.upgrade(check=True, snapshot=files)
    assert (found["installed"], found["removed"], machine.installed) == (["zip 3.0-13"], ["libnew"], [])
    found = machine.upgrade(snapshot=files)
    assert (found["changed"], found["removed"]) == (True, ["libnew"])
    install, purge = machine.installed
    assert install[-1] == "zip=3.0-13"
    assert purge[-2:] == ["purge", "libnew"]
    assert "APT::Get::allow-downgrades=true" in install
    assert all(f"Dir::Etc::sourceparts={tmp_path}/view/sources.d" in command for command in machine.commands)
    assert (tmp_path / "view/sources.d/snapshot-system.sources").read_text() == "Types: deb\n"
