# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the settings of the health controller: the values of roles/health_control/parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from ..cluster import Cluster, Health, Node
from ..cluster.nvlink_domains import split
from ..parts.decision import Decision
from ..slurm import render
from . import monitoring_files

_PART, _EXPORTER = "health_control", "slurm_exporter"
_TICK = 20  # seconds


def decide(cluster: Cluster, host: str) -> Decision | None:
    """Return the decision for a host; None for a host that is neither a controller nor a host of Prometheus."""
    found = _controller(cluster) if host in cluster.services.controllers else None
    if cluster.monitoring is None or host not in cluster.monitoring.servers:
        return found
    files = [{"name": name, "text": text} for name, text in monitoring_files.target_files(cluster).items()]
    prometheus = {"targets": files, "expected": monitoring_files.expected_rules(cluster)}
    whole = found or Decision(expected={"files_alone": {}})
    return Decision({**whole.parts, "prometheus": prometheus}, whole.expected)


def _controller(cluster: Cluster) -> Decision:
    if cluster.health is None:
        return Decision({f"{_PART}_absent": {}, f"{_EXPORTER}_absent": {}})
    made = settings(cluster, cluster.health)
    until = cluster.health.dry_run_until
    expected = {"dry_run_until": until.isoformat() if until else None, "tick": _TICK, "state": made["state"]}
    return Decision({_PART: {"settings": made}, **_exporter(cluster)}, {_PART: expected})


def _exporter(cluster: Cluster) -> dict[str, Any]:
    """Return the part of the exporter, or the part that removes it, with its values."""
    monitoring = cluster.monitoring
    if monitoring and monitoring.slurm_exporter:
        return {_EXPORTER: {"listen": f":{monitoring.slurm_port}"}}
    return {f"{_EXPORTER}_absent": {}}


def settings(cluster: Cluster, health: Health) -> dict[str, Any]:
    """Return /etc/bedplate/health-control.json, as module_utils/health/control reads it."""
    caps, until = health.drain, health.dry_run_until
    state = render.desired_state(cluster)["state_save_location"]
    return {
        "tick": _TICK,
        "dry_run_until": until.isoformat() if until else None,
        "resume": health.resume,
        "caps": {
            "cluster": caps.cluster,
            "nodes": caps.nodes,
            "partition": caps.partition,
            "rack": caps.rack,
            "nvlink_domain": caps.nvlink_domain,
            "keep": caps.keep,
            "drains": caps.drains,
            "seconds": caps.seconds,
        },
        "nodes": {
            "racks": _grouped((node.rack.name, node.name) for node in cluster.nodes),
            "profiles": _grouped((node.profile.name, node.name) for node in cluster.nodes),
            "leaves": _grouped((node.rack.leaf, node.name) for node in cluster.nodes if node.profile.nics),
            "nvlink_domains": _grouped(_domains(cluster)),
            "partitions": {part.name: fold(part.nodes) for part in cluster.partitions.values() if part.nodes},
        },
        "state": f"{state}/bedplate-health",
        "textfile": f"{cluster.monitoring.textfile}/bedplate_health_control.prom" if cluster.monitoring else "",
    }


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return group -> its nodes as a hostlist."""
    found: dict[str, list[str]] = {}
    for group, node in pairs:
        found.setdefault(group, []).append(node)
    return {group: fold(nodes) for group, nodes in found.items()}


def _domains(cluster: Cluster) -> Iterable[tuple[str, str]]:
    """Yield the NVLink domains of several nodes, numbered, and their nodes."""
    domains: list[tuple[str, tuple[Node, ...]]] = [
        (f"{name}-{number}", members)
        for (name, size), nodes in cluster.nodes_by_domain.items()
        for number, members in enumerate(split(nodes, size), 1)
    ]
    return ((name, node.name) for name, members in domains for node in members if len(members) > 1)
