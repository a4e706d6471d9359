# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict's files: whole after SIGKILL at any moment, and never a good verdict that is out of date."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import verdict_file
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.verdict_file import (
    UnwrittenVerdictError,
    VerdictFiles,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import verdict_line
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import Verdict

from .agent_kit import BOOT, REPOSITORY

OK = Verdict("ok", BOOT, 100, 180)
SICK = Verdict("fail", BOOT, 160, 180, "cannot-run", "xid-79@0000:3b:00.0")


def test_prolog_and_people_can_read_both_files(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        files = VerdictFiles(tmp_path / "run")
        files.write(OK, {"status": "ok"})
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o755
    for name in ("verdict", "verdict.json"):
        assert stat.S_IMODE((tmp_path / "run" / name).stat().st_mode) == 0o644
    assert files.current() == OK


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        (OK, SICK, None),
        (OK, Verdict("unknown", BOOT, 160, 180), None),
        (SICK, OK, SICK),
        (OK, Verdict("ok", BOOT, 160, 180), OK),
    ],
    ids=["ok-before-fail", "ok-before-unknown", "fail-before-ok", "same"],
)
def test_full_disk_leaves_no_better_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: Verdict, new: Verdict, left: Verdict | None
) -> None:
    files = VerdictFiles(tmp_path)
    files.write(old, {})

    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verdict_file, "atomic_write", full)
    with pytest.raises(UnwrittenVerdictError):
        files.write(new, {})
    assert files.current() == left


def test_temporary_files_of_a_killed_agent_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".verdict.0123abcd.tmp").write_text("half")
    VerdictFiles(tmp_path)
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys, pathlib
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.verdict_file import VerdictFiles
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import Verdict
files, number = VerdictFiles(pathlib.Path(sys.argv[1])), 0
while True:
    number += 1
    status = ("ok", "fail")[number % 2]
    files.write(Verdict(status, sys.argv[2], number, 180, "-", "x" * 300), {"number": number, "text": "y" * 20000})
"""


def test_kill_at_any_moment_leaves_whole_files(tmp_path: Path) -> None:
    chance = random.Random(7)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "collections")}
    for _ in range(12):
        started = time.monotonic()
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), BOOT], env=environment)
        while not (tmp_path / "verdict.json").exists() and time.monotonic() - started < 20:
            time.sleep(0.005)
        time.sleep(0.1 + chance.random() / 8)
        process.send_signal(signal.SIGKILL)
        process.wait()
        verdict_line.parse((tmp_path / "verdict").read_text())
        assert set(json.loads((tmp_path / "verdict.json").read_bytes())) == {"number", "text"}
