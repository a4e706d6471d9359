# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a node's verdict with what the health agent should have left there: verify's reader of the role node_health."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...common.finding import WARNING, Finding
from . import verdict_line
from .verdict_line import FAIL, UNKNOWN, Verdict, VerdictError

VERDICT = "run/bedplate/health/verdict"
DETAILS = "run/bedplate/health/verdict.json"
GATE_OFF = "etc/bedplate/health/gate-off"
_BOOT, _UPTIME = "proc/sys/kernel/random/boot_id", "proc/uptime"
_MOST = 3
_AGENT = "`systemctl status bedplate-health` has the reason; run playbooks/health.yml"


def findings(root: str, expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the findings: no verdict of this boot that is still valid, a sick node, a gate that is off although the file has it on.

    Of a valid verdict also problems of the agent, such as an Extra of Slurm that is a text of the site: then the limiter sees no report.

    `expected`: `gate` is open, prolog or strict.
    """
    top = Path(root)
    if expected["gate"] != "open" and (top / GATE_OFF).exists():
        remedy = f"remove /{GATE_OFF} once the reason for it has ended"
        yield Finding("health-gate", f"/{GATE_OFF}", "absent", "the prolog passes every job", remedy, severity=WARNING)
    try:
        verdict = verdict_line.parse((top / VERDICT).read_text(encoding="utf-8"))
        boot = (top / _BOOT).read_text(encoding="ascii").strip()
        uptime = float((top / _UPTIME).read_text(encoding="ascii").split()[0])
    except (OSError, VerdictError, ValueError, IndexError) as error:
        yield Finding("health-verdict", f"/{VERDICT}", "a verdict of this boot", str(error), _AGENT)
        return
    age = uptime - verdict.written
    if verdict.boot != boot:
        yield Finding("health-verdict", f"/{VERDICT}", "a verdict of this boot", f"one of boot {verdict.boot}", _AGENT)
    elif age > verdict.valid:
        found = f"{age:.0f} s old"
        yield Finding("health-verdict", f"/{VERDICT}", f"a verdict of the last {verdict.valid} s", found, _AGENT)
    else:
        yield from _of_valid(verdict, _problems(top))


def _of_valid(verdict: Verdict, problems: Mapping[str, str]) -> Iterator[Finding]:
    for part, problem in sorted(problems.items())[:_MOST]:
        remedy = f"/{DETAILS} has all problems of the agent"
        yield Finding(
            "health-agent", f"{part} of the health agent", "no problem", problem[:300], remedy, severity=WARNING
        )
    if verdict.status in (FAIL, UNKNOWN):
        found = " ".join(filter(None, (verdict.status, verdict.health_class.strip("-"), verdict.text)))
        remedy = "/run/bedplate/health/verdict.json has the findings with their remedies"
        yield Finding("health", "health of the node", "ok", found, remedy, severity=WARNING)


def _problems(top: Path) -> Mapping[str, str]:
    """Return the agent's problems by part; none if they cannot be read."""
    try:
        found = json.loads((top / DETAILS).read_text(encoding="utf-8"))["problems"]
        return {str(part): str(problem) for part, problem in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
