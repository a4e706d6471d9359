# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which nodes may be drained now: so many of each partition, and never nodes of two batches below one switch or in one block.

No node is drained while health has too many of the nodes out of service that the run has resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...common.text import few
from ..live.drain_reasons import HEALTH, ROLL
from .node_states import NodeView


@dataclass(frozen=True)
class Limit:
    """At most `most` of these nodes may be out of service, for any reason; `where` is the name for operators."""

    where: str
    nodes: frozenset[str]
    most: int


@dataclass(frozen=True)
class Apart:
    """Nodes below one lowest switch, or in one block: nodes of another batch must be back before one of this batch is drained."""

    where: str
    nodes: frozenset[str]


@dataclass(frozen=True)
class Watch:
    """At most `most` of these nodes, which the run has resumed, may be out of service for health; `where` is the name for operators."""

    where: str
    nodes: frozenset[str]
    most: int


@dataclass(frozen=True)
class Admission:
    """Nodes that may be drained now, and why the others wait."""

    now: tuple[str, ...]
    waits: Mapping[str, str]


def admit(
    wanted: Sequence[str],
    nodes: Mapping[str, NodeView],
    limits: Iterable[Limit] = (),
    apart: Iterable[Apart] = (),
    batch: Iterable[str] = (),
    kind: str = ROLL,
) -> Admission:
    """Return which nodes of `wanted`, in their order, may be drained beside the nodes that are out already.

    `batch` are the nodes of this batch, `wanted` among them. Nodes outside of it that a run of the same kind has drained belong to another
    batch; a node that another kind has drained, such as one that failed its health check, may stay out for days.
    """
    own_batch = {*batch, *wanted}
    out = {name for name, node in nodes.items() if node.is_out}
    others = {name for name in out if name not in own_batch and _is_of(nodes[name], kind)}
    blocked = [(one, sorted(one.nodes & others)) for one in apart if one.nodes & others]
    counts = {limit: set(limit.nodes & out) for limit in limits}
    now, waits = [], {}
    for name in wanted:
        if why := _why_not(name, counts, blocked):
            waits[name] = why
            continue
        now.append(name)
        for limit, there in counts.items():
            if name in limit.nodes:
                there.add(name)
    return Admission(tuple(now), waits)


def out_for_health(watched: Iterable[Watch], nodes: Mapping[str, NodeView]) -> dict[str, str]:
    """Return the watched nodes that health has out of service, each with the text of its reason."""
    names = sorted({name for one in watched for name in one.nodes} & set(nodes))
    reasons = {name: nodes[name].own for name in names}
    return {name: own.text for name, own in reasons.items() if own is not None and own.kind == HEALTH}


def too_many(watched: Iterable[Watch], sick: Iterable[str]) -> str:
    """Return why no node may be drained beside the sick nodes, or ""."""
    out = set(sick)
    for one in watched:
        if len(found := sorted(one.nodes & out)) > one.most:
            return f"{one.where}: health has {len(found)} nodes out of service, of at most {one.most}: {few(found)}"
    return ""


def _is_of(node: NodeView, kind: str) -> bool:
    return node.own is not None and node.own.kind == kind


def _why_not(name: str, counts: Mapping[Limit, set[str]], blocked: Iterable[tuple[Apart, list[str]]]) -> str:
    for one, others in blocked:
        if name in one.nodes:
            return f"{one.where}: {few(others)} of another batch are still out"
    for limit, out in counts.items():
        if name in limit.nodes and name not in out and len(out) >= limit.most:
            return f"{limit.where}: {len(out)} of at most {limit.most} nodes are out: {few(sorted(out))}"
    return ""
