# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the settings of a node's health agent: the values of roles/node_health/parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..cluster import Cluster, Health, Node, Profile
from ..gpu_stack import stack_table
from ..parts.decision import Decision

_PART = "node_health"
# Boards whose GPUs are joined by NVSwitches.
_NVLINK_BOARDS = ("hgx", "nvl72")
STRICT = "strict"
# In a line of a unit: no blanks, no quotes, no "%" of systemd.
_PATH = re.compile(r"(/[A-Za-z0-9._+-]+)+\Z")


def decide(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> Decision | None:
    """Return the decision for a host; None for a host outside the racks, or that is not managed.

    `choices` are the role's variables by what is behind `node_health_`.
    """
    machine = cluster.machine(host)
    if not isinstance(machine, Node) or not choices["manage"]:
        return None
    if cluster.health is None:
        return Decision({f"{_PART}_absent": {}})
    values = {
        "settings": settings(cluster, cluster.health, machine),
        "kernel_log": choices["kernel_log"],
        # A file is replaced by another one, so the agent writes to the directory.
        "textfiles": cluster.monitoring.textfile if cluster.monitoring else "",
        "strict": cluster.health.gate == STRICT,
        "held": ["slurmd.service"] if cluster.health.gate == STRICT else [],
    }
    expected = {"interval": cluster.health.interval, "gate": cluster.health.gate}
    return Decision({_PART: values}, {_PART: expected})


def mistakes(choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield the mistakes in the role's variables that its argument spec cannot name."""
    log = choices["kernel_log"]
    if not isinstance(log, str) or not _PATH.match(log):
        yield f"node_health_kernel_log: {log!r}; allowed: an absolute path of letters, digits and . _ + -"


def settings(cluster: Cluster, health: Health, node: Node) -> dict[str, Any]:
    """Return /etc/bedplate/health.json of a node, as module_utils/health/agent reads it."""
    return {
        "node": node.name,
        "interval": health.interval,
        "profile": profile_settings(health, node.profile),
        "ignore": [{"check": one.check, "until": one.until and one.until.isoformat()} for one in health.ignore],
        "evidence": {"days": health.evidence_days, "bytes": health.evidence_bytes},
        "textfile": _textfile(cluster),
    }


def profile_settings(health: Health, profile: Profile) -> dict[str, Any]:
    """Return a NodeProfile of module_utils/health/facts/node_facts.py as plain data."""
    rails = [nic.name for nic in profile.nics if nic.rail is not None]
    model = profile.gpus.model if profile.gpus else ""
    return {
        "model": model,
        "gpus": profile.gpus.count if profile.gpus else 0,
        "nvlink": _nvlink(profile),
        "rails": rails,
        "rails_needed": len(rails) if profile.health.rails_needed is None else profile.health.rails_needed,
        "mounts": list(profile.health.mounts),
        "huge_pages": {size: pages for size in ("2M", "1G") if (pages := sum(profile.node_pages(size)))},
        "thresholds": health.thresholds_of(model, profile.name),
        "quiet_after_boot": health.quiet_after_boot,
    }


def _nvlink(profile: Profile) -> bool:
    if profile.health.nvlink is not None:
        return profile.health.nvlink
    model = stack_table.default().models.get(profile.gpus.model) if profile.gpus else None
    return model is not None and model.board in _NVLINK_BOARDS


def _textfile(cluster: Cluster) -> str:
    return f"{cluster.monitoring.textfile}/bedplate_health.prom" if cluster.monitoring else ""
