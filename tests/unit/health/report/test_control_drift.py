"""Verify's reader of the limiter: a dry run, a limiter that stands still, and what it pages."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import control_drift

NOW = time.mktime((2026, 6, 1, 12, 0, 0, 0, 0, -1))
EXPECTED = {"state": "/state", "tick": 20, "dry_run_until": "2026-01-01"}


def kinds(folder: Path, status: object, **expected: Any) -> list[str]:
    (folder / "state").mkdir(exist_ok=True)
    if status is not None:
        (folder / "state/status.json").write_text(status if isinstance(status, str) else json.dumps(status))
    found = control_drift.findings(str(folder), {**EXPECTED, **expected}, lambda: NOW)
    return [f"{one.severity} {one.kind}" for one in found]


def status(**more: Any) -> dict[str, Any]:
    return {"time": NOW - 5, "acts": True, "problems": [], "pages": [], **more}


def test_a_limiter_that_acts_is_no_finding(tmp_path: Path) -> None:
    assert kinds(tmp_path, status()) == []


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"time": "now"}'])
def test_no_tick_is_an_error(tmp_path: Path, text: str | None) -> None:
    assert kinds(tmp_path, text) == ["error health-control"]


def test_an_old_tick_is_an_error(tmp_path: Path) -> None:
    assert kinds(tmp_path, status(time=NOW - 121)) == ["error health-control"]
    assert kinds(tmp_path, status(time=NOW - 119)) == []
    assert kinds(tmp_path, status(time=NOW - 119), tick=1) == []
    assert kinds(tmp_path, status(time=NOW - 599), tick=100) == []
    assert kinds(tmp_path, status(time=NOW - 601), tick=100) == ["error health-control"]


@pytest.mark.parametrize("until", [None, "2026-06-02"])
def test_a_dry_run_is_said(tmp_path: Path, until: str | None) -> None:
    assert kinds(tmp_path, status(), dry_run_until=until) == ["notice health-dry-run"]


def test_the_first_day_acts(tmp_path: Path) -> None:
    assert kinds(tmp_path, status(), dry_run_until="2026-06-01") == []


def test_problems_and_pages_are_warnings(tmp_path: Path) -> None:
    found = kinds(tmp_path, status(problems=["n1: gone"], pages=[{"kind": "suspect-check", "text": "gpu-count"}]))
    assert found == ["warning health-control", "warning health-page"]


def test_the_state_is_read_as_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared folder that maps root to nobody answers its owner alone."""
    users: list[object] = []

    class Recorded(control_drift.AsUser):
        def __init__(self, uid: int | None) -> None:
            users.append(uid)
            super().__init__(None)

    monkeypatch.setattr(control_drift, "AsUser", Recorded)
    monkeypatch.setattr(control_drift, "owner_of", lambda _path: 4711)
    assert kinds(tmp_path, status()) == []
    assert users == [4711]
