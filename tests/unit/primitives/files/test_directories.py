"""Directories of the list, and those that are missing above its files, in any order."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import file_writer
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile

ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_listed_directory_may_be_above_or_below_one_that_is_missing(tmp_path: Path, order: tuple[int, ...]) -> None:
    wanted = [
        DesiredFile(str(tmp_path / "top"), state="directory", mode="0750", **ME),
        DesiredFile(str(tmp_path / "top/missing/low"), state="directory", mode="0700", **ME),
        DesiredFile(str(tmp_path / "top/other/file"), content=b"x\n", **ME),
    ]
    result = file_writer.apply("demo", [wanted[i] for i in order], tmp_path / "state", False, True, "")
    assert result["changed"]
    modes = {
        name: (tmp_path / name).stat().st_mode & 0o777
        for name in ("top", "top/missing", "top/missing/low", "top/other")
    }
    assert modes == {"top": 0o750, "top/missing": 0o755, "top/missing/low": 0o700, "top/other": 0o755}
    assert not file_writer.apply("demo", wanted, tmp_path / "state", False, True, "")["changed"]
