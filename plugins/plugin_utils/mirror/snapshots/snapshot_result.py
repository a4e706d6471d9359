# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of the action `snapshot`, and the files that a promotion writes for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...cluster import Cluster
from ..mirror_report import size
from ..signed_repository import write
from . import installed_list, snapshot_difference
from .promote_snapshot import TESTING, UNTESTED, Promotion
from .snapshot_model import SnapshotReport

_PENDING = ("packages-pending", "snapshot-pending")
"""Kinds of findings of what waits, in plugins/module_utils/drift/snapshot_packages.py."""


def of_made(report: SnapshotReport, check: bool) -> dict[str, Any]:
    """Return the result of a snapshot that was made, or existed."""
    whole = f"snapshot {report.name}: {report.packages} packages ({size(report.size)}) for {', '.join(report.systems)}"
    verb = "to fetch" if check else "fetched"
    fetched = f"{len(report.fetched)} files ({size(report.fetched_size)}) {verb}" if report.changed else "it exists"
    return {
        "changed": report.changed,
        "msg": f"{whole}; {fetched}; {report.place}",
        "name": report.name,
        "systems": {system: list(kinds) for system, kinds in report.systems.items()},
        "packages": report.packages,
        "fetched": report.fetched,
        "fetched_bytes": report.fetched_size,
        "diff": {
            "before": "",
            "after": "".join(f"{url}\n" for url in report.fetched),
            "before_header": "snapshots",
            "after_header": f"snapshot {report.name} ({size(report.fetched_size)} to fetch)",
        },
    }


def of_promotion(promotion: Promotion, state: str, name: str, check: bool) -> dict[str, Any]:
    """Return the result of a promotion."""
    before, after = promotion.before.promoted, promotion.after.promoted
    lines = [str(one) for one in promotion.changes]
    said = {UNTESTED: "no snapshot is under test", TESTING: f"snapshot {name} is for the nodes that test"}.get(
        state, f"snapshot {name} is promoted"
    )
    if check and promotion.changed:
        said = f"would be: {said}"
    if promotion.changes or (before and after and before.name != name and state != UNTESTED):
        said += f"; against {before.name if before else 'nothing'}: {snapshot_difference.counted(promotion.changes)}"
    found = promotion.snapshot
    return {
        "changed": promotion.changed,
        "msg": said,
        "name": name,
        "systems": {system: list(kinds) for system, kinds in found.systems.items()} if found else {},
        "packages": sum(len(one.packages) for one in found.repositories) if found else 0,
        "changes": lines,
        "warnings": promotion.warnings,
        "diff": {
            "before": "",
            "after": "".join(f"{line}\n" for line in lines),
            "before_header": f"snapshot {before.name}" if before else "no snapshot",
            "after_header": f"snapshot {name}",
        },
    }


def write_report(folder: str, cluster: Cluster, promotion: Promotion) -> None:
    """Write the SPDX list and the changes of a promotion into a folder. OSError: that failed."""
    if promotion.snapshot is None:
        return
    place, name = Path(folder).expanduser(), f"{cluster.name}-{promotion.snapshot.name}"
    text = installed_list.text_of(installed_list.document(cluster, promotion.snapshot))
    write(place / f"{name}.spdx.json", text.encode())
    write(place / f"{name}.changes.txt", "".join(f"{one}\n" for one in promotion.changes).encode())


def is_tested(compared: Mapping[str, Any]) -> bool:
    """Return whether a node was compared without a failure, and no package waits there."""
    if compared.get("failed") or compared.get("unreachable") or "findings" not in compared:
        return False
    return not any(one.get("kind") in _PENDING for one in compared["findings"])
