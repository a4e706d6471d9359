# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices on a cluster, shown once a run and not mistakes: unused nodes, and drivers at their end of life or never seen installed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from ..gpu_lock.locked_stack import table_of
from ..gpu_rows import lifecycle, rows_file
from ..gpu_rows.unverified import unverified_rows
from ..gpu_stack.resolve import Request, Stack, StackError
from ..gpu_stack.stack_model import StackTable
from .gpu_stack_checks import request_of, stack_of
from .model import Cluster, Profile

_LONG_DRY_RUN = timedelta(days=366)


def notices(cluster: Cluster, today: date | None = None) -> list[str]:
    """Return a text for each notice. A set of GPU software that cannot be resolved is skipped: it is a mistake."""
    day = today or date.today()
    return [*_unused_nodes(cluster), *_drivers(cluster, day), *_unverified(cluster), *_health(cluster, day)]


def _unused_nodes(cluster: Cluster) -> list[str]:
    used = {name for partition in cluster.partitions.values() for name in partition.nodes}
    unused = [node.name for node in cluster.nodes if node.name not in used]
    if not unused:
        return []
    what = f"node {unused[0]} is" if len(unused) == 1 else f"nodes {fold(unused)} are"
    return [
        f"{cluster.path}: {what} in no partition, so no job runs there. Name them under `partitions`, or use `nodes: all`."
    ]


def _health(cluster: Cluster, today: date) -> Iterator[str]:
    """Yield parts of `health` without effect: rows that have ended, and partitions whose nodes are never drained."""
    health = cluster.health
    if health is None:
        return
    for row in health.ignore:
        if row.until and row.until < today:
            yield f"{cluster.path}: health.ignore: {row.check} ended on {row.until}, so it counts again. Remove the row."
    if health.dry_run_until and health.dry_run_until - today > _LONG_DRY_RUN:
        yield f"{cluster.path}: health.dry_run_until is {health.dry_run_until}: until then no sick node is drained."
    small = [one.name for one in cluster.partitions.values() if 0 < len(one.nodes or ()) <= health.drain.keep]
    if small:
        text = f"have {health.drain.keep} nodes or fewer, as many as health.drain.keep: their nodes are never drained"
        yield f"{cluster.path}: partitions {', '.join(small)} {text}."


def _drivers(cluster: Cluster, today: date) -> list[str]:
    profiles: dict[str, list[str]] = {}
    for name, profile in cluster.profiles.items():
        for text in _of_profile(profile, rows_file.path_of(cluster.path), today):
            profiles.setdefault(text, []).append(name)
    return [
        f"{cluster.path}: profile{'s' * (len(names) > 1)} {', '.join(names)}: {text}"
        for text, names in profiles.items()
    ]


def _resolved(profile: Profile) -> tuple[Request, Stack, StackTable] | None:
    """Return request, set and table of the GPU software of a profile; None without any, and for a set that is a mistake."""
    wanted = profile.gpu_stack
    if wanted is None or profile.gpus is None:
        return None
    request = request_of(wanted, profile)
    try:
        return request, stack_of(wanted, profile), table_of(request, wanted.lock, wanted.rows)
    except StackError:
        return None


def _of_profile(profile: Profile, own_rows: Path | None, today: date) -> Iterator[str]:
    resolved = _resolved(profile)
    if resolved is None:
        return
    request, stack, table = resolved
    if ended := lifecycle.end_notice(request, table, today):
        yield ended
    if untested := lifecycle.untested_notice(request, stack, table):
        row = f'{{os: {request.os}, source: {request.source}, driver: "{stack.driver}", module: {stack.module}}}'
        remedy = f" When it works, add {row} to `installed` in {own_rows.name}." if own_rows else ""
        yield f"{untested} Install it on one node first (--limit).{remedy}"


def _unverified(cluster: Cluster) -> list[str]:
    """Return one text on all rows that sets depend on whose drivers were never seen installed."""
    resolved = [one for one in map(_resolved, cluster.profiles.values()) if one and lifecycle.untested_notice(*one)]
    rows = ", ".join(dict.fromkeys(name for one in resolved for name in unverified_rows(*one)))
    return [f"{cluster.path}: rows of bedplate's GPU table that were not read at their source: {rows}."] if rows else []
