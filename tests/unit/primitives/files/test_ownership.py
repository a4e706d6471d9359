# SPDX-License-Identifier: GPL-3.0-or-later
"""What bedplate.cluster.files owns on a node, and what it only replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile, plan
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_writer import apply


class NoScratch:
    """A temporary directory that nobody may ask for."""

    def __fspath__(self) -> str:
        raise AssertionError("asked for a temporary directory")


def write(base: Path, *wanted: DesiredFile) -> dict[str, Any]:
    return apply("demo", list(wanted), base / "state", check=False, diff=True, scratch=NoScratch())


@pytest.mark.parametrize("before", ["other\n", "new\n"])
def test_a_file_that_was_there_before_is_never_removed(tmp_path: Path, before: str) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(before)
    write(tmp_path, DesiredFile(str(hosts), content=b"new\n"))
    write(tmp_path, DesiredFile(str(hosts), content=b"newer\n"))
    result = write(tmp_path)
    assert result["removed"] == []
    assert list(result["kept"]) == [str(hosts)]
    assert hosts.read_text() == "newer\n"


def test_a_directory_that_was_there_before_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    write(tmp_path, DesiredFile(str(tmp_path / "spool"), state="directory", mode="0700"))
    assert write(tmp_path)["removed"] == []
    assert (tmp_path / "spool").is_dir()


def test_a_file_of_ours_that_somebody_removed_is_still_ours(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for _time in range(2):
        write(tmp_path, DesiredFile(str(path), content=b"x"))
        path.unlink()
    write(tmp_path, DesiredFile(str(path), content=b"x"))
    assert write(tmp_path)["removed"] == [str(path)]


@pytest.mark.parametrize(("user", "group", "owner"), [(0, 5, (0, 0)), (65534, 65533, (65534, 65533))])
def test_the_default_owner_is_root_or_who_runs_it_where_that_is_not_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, group: int, owner: tuple[int, int]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "getegid", lambda: group)
    (change,) = plan("demo", [DesiredFile(str(tmp_path / "a"), content=b"x")], {}, check=False).changes
    assert (change.uid, change.gid) == owner
