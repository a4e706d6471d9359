# SPDX-License-Identifier: GPL-3.0-or-later
"""StateSaveLocation is proved before two controllers keep their state there."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.shared_state import (
    SharedStateError,
    leave,
    remove,
    unseen,
)

ME = getpass.getuser()


def test_controllers_that_share_a_directory_see_each_other_and_leave_nothing(tmp_path: Path):
    marks = {name: leave(tmp_path, name, ME) for name in ("c1", "c2")}
    assert list(unseen(tmp_path, marks)) == []
    for name in marks:
        remove(tmp_path, name, ME)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_its_own_is_told(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    marks = {"c1": leave(tmp_path / "a", "c1", ME), "c2": leave(tmp_path / "b", "c2", ME)}
    assert list(unseen(tmp_path / "a", marks)) == ["c2"]
    assert list(unseen(tmp_path / "b", marks)) == ["c1"]


def test_a_mark_of_an_earlier_run_proves_nothing(tmp_path: Path):
    old = leave(tmp_path, "c1", ME)
    assert list(unseen(tmp_path, {"c1": f"{old}x"})) == ["c1"]


@pytest.mark.parametrize("made", ["", "srv", "srv/slurm"])
def test_the_first_directory_that_is_missing_is_named(tmp_path: Path, made: str):
    (tmp_path / made).mkdir(parents=True, exist_ok=True)
    path = tmp_path / "srv/slurm/state"
    missing = {"": "srv", "srv": "srv/slurm", "srv/slurm": "srv/slurm/state"}[made]
    with pytest.raises(SharedStateError, match=f"no directory here: {tmp_path / missing} does not exist"):
        leave(path, "c1", ME)


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path):
    other = "nobody" if ME != "nobody" else "daemon"
    with pytest.raises(SharedStateError, match=f"not owned by {other}"):
        leave(tmp_path, "c1", other)


def test_an_unknown_user_is_named():
    with pytest.raises(SharedStateError, match="no user bedplate-nobody"):
        leave(Path("/"), "c1", "bedplate-nobody")
