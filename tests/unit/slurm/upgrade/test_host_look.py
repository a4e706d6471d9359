# SPDX-License-Identifier: GPL-3.0-or-later
"""A look finds what is installed, what apt would change and which plugins are required, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.upgrade_folder import UpgradeFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade import host_look
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.host_look import HostLook, Requested

WANTED = Requested(
    packages=["slurmd=26.05.*", "slurm-client=26.05.*", "munge"],
    release=["slurmd", "slurm-client*", "slurm-wlm*"],
    version="26.05.*",
    preferences=("bedplate-slurm", "pins"),
    daemons=["slurmctld.service"],
    is_core=True,
)


class Machine:
    """A fake machine with these packages; apt finds the release from its nth call of `--simulate` on."""

    def __init__(self, version: str = "24.11.5-4", finds_at: int = 1) -> None:
        self._version, self._finds_at = version, finds_at
        self.simulated = 0
        self.calls: list[list[str]] = []

    def __call__(self, argv: Sequence[str], *_seconds: float, **_more: Any) -> Outcome:
        self.calls.append(list(argv))
        if argv[0] == "dpkg-query" and "--search" in argv:
            return Outcome(1, "", "no path found")
        if argv[0] == "dpkg-query":
            there = {
                "slurmd": self._version,
                "slurm-client": self._version,
                "slurm-wlm-plugins": self._version,
                "munge": "0.5",
            }
            names = argv[argv.index("--") + 1 :]
            shown = [
                one
                for one in there
                if any(one == name or (name.endswith("*") and one.startswith(name[:-1])) for name in names)
            ]
            return Outcome(0, "".join(f"{name}\tamd64\tinstalled\t{there[name]}\n" for name in shown), "")
        if "--simulate" in argv:
            self.simulated += 1
            if self.simulated < self._finds_at:
                return Outcome(100, "", "E: Version '26.05.*' for 'slurmd' was not found")
            return Outcome(
                0, "Inst slurmd [24.11.5-4] (26.05.5-1 sid [amd64])\nInst libc6 [2.41] (2.42 sid [amd64])\n", ""
            )
        return Outcome(0, "", "")

    def verbs(self) -> set[str]:
        return {verb for call in self.calls for verb in ("update", "--download-only") if verb in call}


@pytest.fixture(autouse=True)
def _no_plugstack(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_look, "_PLUGSTACKS", ())


def test_a_look_at_the_old_release(tmp_path: Path):
    machine = Machine()
    found = HostLook(WANTED, tmp_path, run=machine).facts()
    assert found["installed"] == dict.fromkeys(("slurmd", "slurm-client", "slurm-wlm-plugins"), "24.11.5-4")
    assert found["changes"] == {"slurmd": ["24.11.5-4", "26.05.5-1"], "libc6": ["2.41", "2.42"]}
    # Slurm's packages alone go back.
    assert found["old"] == {"slurmd": "24.11.5-4"}
    assert found["old_missing"] == ["slurmd=24.11.5-4"]
    assert found["daemons"] == {"slurmctld.service": True}
    assert found["problems"] == []
    simulated = next(call for call in machine.calls if "--simulate" in call)
    assert simulated[simulated.index("install") + 1 :] == [
        "slurmd=26.05.*",
        "slurm-client=26.05.*",
        "slurm-wlm-plugins=26.05.*",
    ]
    assert machine.verbs() == set()


def test_the_new_release_needs_no_apt(tmp_path: Path):
    machine = Machine("26.05.5-1")
    found = HostLook(WANTED, tmp_path, run=machine).facts()
    assert (found["changes"], found["old"]) == ({}, {})
    assert not [call for call in machine.calls if call[0] == "apt-get"]


@pytest.mark.parametrize(("refresh", "updates"), [(True, {"update"}), (False, set())])
def test_lists_are_read_again_only_where_they_lack_the_release_and_outside_of_a_preview(
    tmp_path: Path, refresh: bool, updates: set[str]
):
    machine = Machine(finds_at=2)
    found = HostLook(WANTED, tmp_path, refresh, machine).facts()
    assert machine.verbs() == updates
    assert bool(found["problems"]) is not refresh


def test_marks_of_an_earlier_call_are_found_and_copies_of_a_way_back_are_not(tmp_path: Path):
    folder = UpgradeFolder(tmp_path, "24.11", "26.05")
    folder.mark("dumped")
    folder.set_aside()
    folder.mark("installing")
    UpgradeFolder(tmp_path, "24.05", "25.05").mark("finished")
    assert list(HostLook(WANTED, tmp_path, run=Machine()).facts()["folders"]) == ["24.11-26.05"]


def test_required_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pyxis.conf").write_text("required /usr/local/lib/slurm/spank_pyxis.so\noptional x.so\n")
    monkeypatch.setattr(host_look, "_PLUGSTACKS", (str(tmp_path),))
    found = HostLook(WANTED, tmp_path / "base", run=Machine()).facts()
    assert found["plugins"] == ["/usr/local/lib/slurm/spank_pyxis.so"]
