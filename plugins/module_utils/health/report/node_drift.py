# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a node's verdict with what the health agent should have left there: verify's reader of the role node_health."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...common.finding import WARNING, Finding
from . import verdict_line
from .verdict_line import FAIL, UNKNOWN, VerdictError

VERDICT = "run/bedplate/health/verdict"
GATE_OFF = "etc/bedplate/health/gate-off"
_BOOT, _UPTIME = "proc/sys/kernel/random/boot_id", "proc/uptime"
_AGENT = "`systemctl status bedplate-health` has the reason; run playbooks/health.yml"


def findings(root: str, expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the findings: no verdict of this boot that is still valid, a sick node, a gate that is off although the file has it on.

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
    elif verdict.status in (FAIL, UNKNOWN):
        found = " ".join(filter(None, (verdict.status, verdict.health_class.strip("-"), verdict.text)))
        remedy = "/run/bedplate/health/verdict.json has the findings with their remedies"
        yield Finding("health", "health of the node", "ok", found, remedy, severity=WARNING)
