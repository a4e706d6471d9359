"""The table of readers: one that fails hides no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import gpu_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.verify import readers

FIRST, LAST = Finding("a", "first", "1", "2"), Finding("b", "last", "1", "2")


def breaks(_root: str, _expected: Mapping[str, Any]) -> Iterator[Finding]:
    yield FIRST
    raise KeyError("settings")


def test_a_reader_that_fails_is_a_finding_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(readers.READERS, "broken", breaks)
    monkeypatch.setitem(readers.READERS, "good", lambda root, expected: [LAST])
    first, unread, last = readers.read({"broken": {}, "good": {}})
    assert (first, last) == (FIRST, LAST)
    assert (unread.kind, unread.where, unread.severity) == ("unread", "part broken", "error")
    assert "settings" in unread.found


def test_a_file_that_cannot_be_read_is_a_warning_and_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "etc/apt/sources.list").mkdir(parents=True)
    found = list(readers.read({"packages": {"manager": "apt", "packages": []}}, str(tmp_path)))
    assert [(one.kind, one.where, one.severity) for one in found] == [("unread", "/etc/apt/sources.list", WARNING)]


@pytest.mark.parametrize(("part", "running"), [("gpu_driver_before_reboot", False), ("gpu_driver", True)])
def test_before_a_reboot_what_runs_is_not_compared(monkeypatch: pytest.MonkeyPatch, part: str, running: bool) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(gpu_drift, "findings", lambda root, expected, running=True: calls.append(running) or [])
    monkeypatch.setitem(readers.READERS, "gpu_driver", gpu_drift.findings)
    assert list(readers.read({part: {}})) == []
    assert calls == [running]


def test_a_part_that_nothing_reads_is_not_taken_for_right() -> None:
    (unread,) = readers.read({"nobody": {}})
    assert (unread.kind, unread.where, unread.severity) == ("unread", "part nobody", "error")


def test_what_waits_for_a_reboot_is_a_warning(tmp_path: Path) -> None:
    assert list(readers.waiting_reboots(str(tmp_path))) == []
    notes = tmp_path / "run/bedplate/reboot-wanted"
    notes.mkdir(parents=True)
    (notes / "gpu_driver").write_text("driver 580 is installed and not loaded\n")
    (found,) = readers.waiting_reboots(str(tmp_path))
    assert (found.where, found.found, found.severity, found.reboot) == (
        "reboot for gpu_driver",
        "driver 580 is installed and not loaded",
        WARNING,
        True,
    )
