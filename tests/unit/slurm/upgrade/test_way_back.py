# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: not needed before packages change, and not possible after the new release has served."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import fetched
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved import kept_files
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.upgrade_folder import UpgradeFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.way_back import BackError, WayBack

PACKAGES = {"slurmctld": "24.11.5-4", "slurm-client": "24.11.5-4"}


class Machine:
    """A fake machine: apt downloads what it is called for, and its calls are kept."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, argv: Sequence[str], *_seconds: float, cwd: Path | None = None, **_more: Any) -> Outcome:
        self.calls.append(list(argv))
        if "download" in argv and cwd:
            name, _, version = argv[-1].partition("=")
            (cwd / f"{name}_{version}_amd64.deb").write_text("x")
        return Outcome(0, "slurmctld\nother\n" if "showhold" in argv else "", "")


@pytest.fixture
def way(tmp_path: Path) -> WayBack:
    root = tmp_path / "root"
    (root / "etc/slurm").mkdir(parents=True)
    (root / "etc/slurm/slurm.conf").write_text("old")
    (root / "var/lib/bedplate").mkdir(parents=True)
    (root / "var/lib/bedplate/holds.json").write_text('{"slurm_packages": ["slurm-client", "gone"]}')
    return WayBack(UpgradeFolder(tmp_path, "24.11", "26.05"), Machine(), root)


def test_what_is_kept_leads_back(way: WayBack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(fetched, "install_kept", lambda packages, folder, run: run(["apt-get", "install", *packages]))
    assert way.prepare(PACKAGES)
    assert not way.prepare(PACKAGES)
    assert json.loads((way.folder.path / "packages.json").read_text()) == PACKAGES
    assert way.keep_files()
    assert not way.keep_files()
    assert not way.is_needed()
    way.folder.mark("installing")
    assert way.is_needed()
    (way.root / "etc/slurm/slurm.conf").write_text("new")
    way.go()
    assert (way.root / "etc/slurm/slurm.conf").read_text() == "old"
    machine = way.run
    assert isinstance(machine, Machine)
    assert ["apt-get", "install", *sorted(PACKAGES)] in machine.calls
    # What was held is held again, by apt's record or by bedplate's, and nothing else.
    assert machine.calls[-1] == ["apt-mark", "hold", "slurm-client", "slurmctld"]


def test_a_call_that_continues_keeps_the_files_of_now(way: WayBack, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetched, "install_kept", lambda *_any: None)
    conf = way.root / "etc/slurm/slurm.conf"
    assert not way.renew_files()
    way.prepare(PACKAGES)
    way.keep_files()
    # The call was killed, and the old release got another node.
    conf.write_text("old, with n9")
    assert way.renew_files()
    conf.write_text("new")
    way.go()
    assert conf.read_text() == "old, with n9"


def test_files_that_were_restored_in_part_are_not_kept(way: WayBack, monkeypatch: pytest.MonkeyPatch):
    way.prepare(PACKAGES)
    way.keep_files()

    def killed(*_any: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kept_files, "trust", killed)
        with pytest.raises(KeyboardInterrupt):
            way.go()
    assert not (way.root / "etc/slurm").exists()
    assert not way.renew_files()
    monkeypatch.setattr(fetched, "install_kept", lambda *_any: None)
    way.go()
    assert (way.root / "etc/slurm/slurm.conf").read_text() == "old"


def test_a_call_that_continues_keeps_the_list_of_the_first(way: WayBack):
    way.prepare(PACKAGES)
    way.folder.mark("installing")
    assert not way.prepare({"slurmctld": "24.11.5-4"})
    assert way.packages() == PACKAGES


def test_after_it_has_served_there_is_no_way_back(way: WayBack):
    way.folder.mark("installing")
    way.folder.mark("served")
    with pytest.raises(BackError, match="has served on this host"):
        way.is_needed()


def test_without_a_list_nothing_is_restored(way: WayBack):
    way.folder.mark("installing")
    way.keep_files()
    with pytest.raises(BackError, match="The old packages are unknown"):
        way.go()
