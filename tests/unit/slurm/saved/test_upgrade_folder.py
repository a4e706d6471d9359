# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of an upgrade: only root reads it, each mark is set once, and a folder of an older way back is replaced."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.upgrade_folder import UpgradeFolder


def test_marks_and_modes(tmp_path: Path):
    folder = UpgradeFolder(tmp_path / "slurm-upgrade", "24.11", "26.05")
    assert folder.marks() == {}
    assert folder.make()
    assert not folder.make()
    assert folder.path.name == "24.11-26.05"
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.mark("dumped", {"rows": 3})
    assert not folder.mark("dumped", {"rows": 4})
    assert folder.marks()["dumped"]["rows"] == 3
    assert folder.marks()["dumped"]["at"] > 1_700_000_000
    assert (folder.path / "marks.json").stat().st_mode & 0o777 == 0o600


def test_a_copy_is_needed_once_the_new_release_was_started_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, now = UpgradeFolder(tmp_path, "24.11", "26.05"), [100]
    monkeypatch.setattr(time, "time", lambda: now[0])
    assert not folder.is_needed("dumped")
    folder.mark("dumped")
    assert not folder.is_needed("dumped")
    folder.mark("started")
    assert folder.is_needed("dumped")
    now[0] = 200
    folder.mark("dumped", again=True)
    assert not folder.is_needed("dumped")
    folder.mark("restoring_database")
    assert folder.is_needed("dumped")
    folder.forget("restoring_database", "dumped")
    assert (folder.is_needed("dumped"), list(folder.marks())) == (False, ["started"])


def test_a_folder_that_others_can_read_is_closed(tmp_path: Path):
    (tmp_path / "24.11-26.05").mkdir(mode=0o755)
    folder = UpgradeFolder(tmp_path, "24.11", "26.05")
    assert folder.make()
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_the_copies_of_the_last_way_back_stay_alone(tmp_path: Path):
    folder = UpgradeFolder(tmp_path, "24.11", "26.05")
    for number in (1, 2):
        folder.mark("dumped", {"rows": number})
        folder.set_aside()
    assert [one.name for one in tmp_path.iterdir()] == ["24.11-26.05.back"]
    assert '"rows": 2' in (tmp_path / "24.11-26.05.back/marks.json").read_text()


def test_damaged_marks_are_an_error(tmp_path: Path):
    folder = UpgradeFolder(tmp_path, "24.11", "26.05")
    folder.make()
    (folder.path / "marks.json").write_text("[]")
    with pytest.raises(ValueError, match="no mapping"):
        folder.marks()
