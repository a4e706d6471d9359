# SPDX-License-Identifier: GPL-3.0-or-later
"""report.json: the record of a run as plain data. docs/schema/run-report.schema.json describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .run_record import CHANGED, FAILED, LEFT, OK, UNREACHABLE, WAITING, HostRecord, RunRecord

VERSION = 1
OUTCOMES = (OK, CHANGED, WAITING, LEFT, FAILED, UNREACHABLE)
"""Of a host: `waiting` for jobs or a later batch, `left` where others have it out of service."""


@dataclass(frozen=True)
class Place:
    """Hold the place of a host: its rack, and the row and column of the rack in the room, if the cluster file has them."""

    rack: str = ""
    row: str | None = None
    column: int | None = None


def document(run: RunRecord, cluster: str = "", places: Mapping[str, Place] | None = None) -> dict[str, Any]:
    """Return the report of a run."""
    found = {name: _host(host, (places or {}).get(name, Place())) for name, host in run.hosts.items()}
    counts = {outcome: sum(one["outcome"] == outcome for one in found.values()) for outcome in OUTCOMES}
    return {
        "version": VERSION,
        "playbook": run.playbook,
        "cluster": cluster,
        "check": run.check,
        "run": run.run,
        "started": _time(run.started),
        "ended": _time(run.ended),
        "seconds": round(run.ended - run.started, 1),
        "outcome": run.outcome,
        "stopped": run.stopped,
        "counts": counts,
        "nodes": found,
    }


def _host(host: HostRecord, place: Place) -> dict[str, Any]:
    rolled = host.rolled
    failed = host.outcome in (FAILED, UNREACHABLE)
    differences = f"{len(host.findings)} differences from the cluster file" if host.findings else ""
    return {
        "outcome": host.outcome,
        "ok": host.ok,
        "changed": host.changed,
        "skipped": host.skipped,
        "failed": {"task": host.task, "reason": str(rolled.get("why") or host.reason or differences)}
        if failed
        else None,
        "unreachable": host.outcome == UNREACHABLE,
        "why": str(rolled.get("why", "")),
        "parts": str(rolled.get("parts", "")),
        "drained": bool(rolled.get("drained")),
        "hours_out": float(rolled.get("hours") or 0.0),
        "waits_for_jobs": list(rolled.get("jobs") or ()),
        "findings": list(host.findings),
        "rack": place.rack,
        "seconds": round(host.seconds, 1),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else ""


def table(report: Mapping[str, Any], most: int = 40) -> list[str]:
    """Return the report as lines: a count of each outcome, then each host that needs a look, at most so many."""
    counted = [f"{number} {outcome}" for outcome, number in report["counts"].items() if number]
    seen = f"{len(report['nodes'])} hosts in {report['seconds']:g} s"
    lines = [f"{report['playbook']}: {report['outcome']}: {', '.join(counted) or 'no host'} ({seen})"]
    odd = {name: one for name, one in report["nodes"].items() if one["outcome"] not in (OK, CHANGED)}
    width = max((len(name) for name in odd), default=0)
    for name, one in list(odd.items())[:most]:
        failed = one["failed"] or {}
        why = failed.get("reason") or one["why"]
        task = f"{failed['task']}: " if failed.get("task") else ""
        lines.append(f"  {name:<{width}}  {one['outcome']:<11}  {task}{' '.join(why.split())[:160]}")
    return [*lines, *([f"  and {len(odd) - most} more"] if len(odd) > most else [])]
