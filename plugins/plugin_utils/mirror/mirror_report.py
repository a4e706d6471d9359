# SPDX-License-Identifier: GPL-3.0-or-later
"""Report of a run of playbooks/mirror.yml."""

from __future__ import annotations

from typing import Any

from . import build_mirror
from .mirror_model import MirrorReport


def result_of(order: build_mirror.Order, report: MirrorReport, listed: dict[str, Any]) -> dict[str, Any]:
    """Return the task's result."""
    return {
        "changed": report.changed,
        "msg": _summary(order, report),
        "directory": str(order.directory),
        "systems": listed["systems"],
        "packages": report.listed,
        "bytes": report.listed_bytes,
        "fetched": report.fetched,
        "fetched_bytes": report.fetched_bytes,
        "published": report.published,
        "kept": report.kept,
        "removed": report.removed,
        "warnings": report.warnings,
        "key_fingerprint": report.fingerprint,
    }


def diff(report: MirrorReport) -> dict[str, str]:
    """Return the files that the mirror lacks, and the removed ones."""
    lines = [f"{url}\n" for url in report.fetched]
    gone = [f"{name}\n" for name in report.removed]
    header = f"mirror ({size(report.fetched_bytes)} to fetch)"
    return {"before": "".join(gone), "after": "".join(lines), "before_header": "mirror", "after_header": header}


def _summary(order: build_mirror.Order, report: MirrorReport) -> str:
    said = [
        f"{report.listed} packages ({size(report.listed_bytes)}) for {', '.join(one.name for one in order.systems)}"
    ]
    if not order.list_only:
        verb = "to fetch" if order.check else "fetched"
        said.append(f"{len(report.fetched)} files ({size(report.fetched_bytes)}) {verb}")
        if report.kept:
            said.append(f"{len(report.kept)} of earlier lists kept")
        if report.removed:
            said.append(f"{len(report.removed)} {'to remove' if order.check else 'removed'}")
    place = f"list: {order.directory}/{build_mirror.JSON}" if order.list_only else f"mirror: {order.directory}"
    return "; ".join([*said, place])


def size(number: int) -> str:
    """Return a number of bytes for a reader.

    >>> size(999), size(12_345_678)
    ('0.0 MB', '12.3 MB')
    """
    return f"{number / 1e6:.1f} MB"
