# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the limiter's last tick with what it should be: verify's reader of the role health_control."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from ...common.as_user import AsUser, owner_of
from ...common.finding import NOTICE, WARNING, Finding

_UNIT = (
    "`systemctl status bedplate-health-control` on the controller in charge has the reason; run playbooks/health.yml"
)
_TICKS, _LEAST = 6, 120
_MOST = 3


def findings(root: str, expected: Mapping[str, Any], clock: Callable[[], float] = time.time) -> Iterator[Finding]:
    """Yield the findings: a dry run, no tick for minutes, problems and pages of the last tick.

    `expected`: `state` is the folder that the controllers share, `tick` seconds, `dry_run_until` a date as text or None.
    """
    yield from _dry_run(expected["dry_run_until"], clock())
    path = Path(root, str(expected["state"]).lstrip("/"), "status.json")
    where = f"{expected['state']}/status.json"
    try:
        with AsUser(owner_of(path.parent)):
            status = json.loads(path.read_text(encoding="utf-8"))
        age = clock() - float(status["time"])
        problems, pages = [str(one) for one in status["problems"]], [str(one["text"]) for one in status["pages"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Finding("health-control", where, "the limiter's last tick", f"{type(error).__name__}: {error}", _UNIT)
        return
    most = max(_LEAST, _TICKS * int(expected["tick"]))
    if age > most:
        yield Finding("health-control", where, f"a tick in the last {most} s", f"the last one {age:.0f} s ago", _UNIT)
    for text in problems[:_MOST]:
        yield Finding("health-control", "last tick of the limiter", "no problem", text, _UNIT, severity=WARNING)
    for text in pages[:_MOST]:
        yield Finding("health-page", "limiter", "no page", text, f"{where} has the nodes", severity=WARNING)


def _dry_run(until: str | None, now: float) -> Iterator[Finding]:
    if until is None:
        found = "a dry run without an end: no sick node is drained"
        yield Finding("health-dry-run", "limiter", "", found, "set health.dry_run_until", severity=NOTICE)
    elif date.fromisoformat(until) > date.fromtimestamp(now):
        yield Finding("health-dry-run", "limiter", "", f"a dry run until {until}", severity=NOTICE)
