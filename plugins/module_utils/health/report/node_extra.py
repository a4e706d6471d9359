# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read the report of a node in Slurm: the key `bp` of the JSON in the node's `Extra`; other keys belong to others.

    {"bp": {"v": 1, "s": "fail", "g": "reset", "c": ["gpu-remap-pending@0000:3b:00.0"], "t": 1790000000, "b": "5f2c1a90", "j": [4711],
            "e": "ab12cd34"}}

`s` status, `g` class, `c` checks with their devices, `t` seconds since 1970 of the change, `b` the first eight digits of the boot id,
`j` jobs on the node, `e` the digest of the evidence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..facts.health_finding import CLASSES
from .verdict_line import STATUSES

KEY = "bp"
VERSION = 1
MOST_CHECKS = 8


class ExtraError(ValueError):
    """An Extra that cannot have a report, such as a text of the site that is not a JSON object."""


@dataclass(frozen=True)
class NodeReport:
    """Hold what a node reports of itself."""

    status: str
    health_class: str = ""
    checks: tuple[str, ...] = ()
    time: int = 0
    boot: str = ""
    jobs: tuple[int, ...] = ()
    evidence: str = ""


def merged(extra: str, report: NodeReport) -> str:
    """Return an Extra with the report in it and all other keys as they were. ExtraError: the Extra is not a JSON object."""
    whole = dict(_object(extra))
    data: dict[str, Any] = {"v": VERSION, "s": report.status, "t": report.time, "b": report.boot}
    if report.health_class:
        data["g"] = report.health_class
    if report.checks:
        data["c"] = list(report.checks[:MOST_CHECKS])
    if report.jobs:
        data["j"] = list(report.jobs[:MOST_CHECKS])
    if report.evidence:
        data["e"] = report.evidence
    whole[KEY] = data
    return json.dumps(whole, separators=(",", ":"), sort_keys=True)


def report_of(extra: str) -> NodeReport | None:
    """Return the report of a node; None without one, or if it is malformed or of another version."""
    try:
        data = _object(extra).get(KEY)
    except ExtraError:
        return None
    if not isinstance(data, Mapping) or data.get("v") != VERSION or data.get("s") not in STATUSES:
        return None
    checks, jobs = data.get("c", []), data.get("j", [])
    lists = isinstance(checks, list) and isinstance(jobs, list)
    if not lists or not isinstance(data.get("t"), int) or data.get("g", "") not in ("", *CLASSES):
        return None
    if not all(isinstance(one, str) for one in checks) or not all(isinstance(one, int) for one in jobs):
        return None
    texts = [data.get(name, "") for name in ("b", "e")]
    if not all(isinstance(one, str) for one in texts):
        return None
    return NodeReport(data["s"], data.get("g", ""), tuple(checks), data["t"], texts[0], tuple(jobs), texts[1])


def _object(extra: str) -> Mapping[str, Any]:
    text = extra.strip()
    if text in ("", "(null)"):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExtraError(f"Extra {text[:60]!r} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ExtraError(f"Extra {text[:60]!r} is not a JSON object")
    return found
