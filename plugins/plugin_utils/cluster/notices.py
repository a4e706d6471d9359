# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices on a cluster, shown once a run and not mistakes: unused nodes, and drivers at their end of life or never seen installed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from ..gpu_lock.locked_stack import table_of
from ..gpu_rows import lifecycle, rows_file
from ..gpu_stack.resolve import StackError
from .cluster_model import Cluster, Profile
from .gpu_stack_checks import request_of, stack_of


def notices(cluster: Cluster, today: date | None = None) -> list[str]:
    """Return a text for each notice. A set of GPU software that cannot be resolved is skipped: it is a mistake."""
    return [*_unused_nodes(cluster), *_drivers(cluster, today or date.today())]


def _unused_nodes(cluster: Cluster) -> list[str]:
    used = {name for partition in cluster.partitions.values() for name in partition.nodes}
    unused = [node.name for node in cluster.nodes if node.name not in used]
    if not unused:
        return []
    what = f"node {unused[0]} is" if len(unused) == 1 else f"nodes {fold(unused)} are"
    return [
        f"{cluster.path}: {what} in no partition, so no job runs there. Name them under `partitions`, or use `nodes: all`."
    ]


def _drivers(cluster: Cluster, today: date) -> list[str]:
    profiles: dict[str, list[str]] = {}
    for name, profile in cluster.profiles.items():
        for text in _of_profile(profile, rows_file.path_of(cluster.path), today):
            profiles.setdefault(text, []).append(name)
    return [
        f"{cluster.path}: profile{'s' * (len(names) > 1)} {', '.join(names)}: {text}"
        for text, names in profiles.items()
    ]


def _of_profile(profile: Profile, own_rows: Path | None, today: date) -> Iterator[str]:
    wanted = profile.gpu_stack
    if wanted is None or profile.gpus is None:
        return
    request = request_of(wanted, profile)
    try:
        stack = stack_of(wanted, profile)
    except StackError:
        return
    table = table_of(request, wanted.lock, wanted.rows)
    if ended := lifecycle.end_notice(request, table, today):
        yield ended
    if untested := lifecycle.untested_notice(request, stack, table):
        row = f'{{os: {wanted.os}, source: {wanted.source}, driver: "{stack.driver}", module: {stack.module}}}'
        remedy = f" When it works, add {row} to `installed` in {own_rows.name}." if own_rows else ""
        yield f"{untested} Install it on one node first (--limit).{remedy}"
