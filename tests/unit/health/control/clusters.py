"""A small cluster for tests of the limiter: nodes in racks, their reports, and settings with caps."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.health.control import control_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import (
    ClusterView,
    NodeState,
    node_state,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.control_settings import ControlSettings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import node_extra
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.node_extra import NodeReport
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import HEALTH, written

NOW = 1_790_000_000.0
CAPS = {
    **{"cluster": 10, "nodes": 20, "partition": 20, "rack": 25, "nvlink_domain": 25},
    **{"keep": 1, "drains": 10, "seconds": 600},
}


def settings(
    racks: int = 10,
    each: int = 10,
    *,
    domain: int = 0,
    until: str = "2026-01-01",
    profile: str | None = None,
    **caps: int,
) -> ControlSettings:
    """Return the settings of racks r1, r2, ... with nodes n1, n2, ... in one partition of all.

    `profile`: the nodes of the only profile, all by default. `domain`: nodes of an NVLink domain; with it the first half of the nodes is a
    second partition.
    """
    names = [[f"n{rack * each + number + 1}" for number in range(each)] for rack in range(racks)]
    listed = [name for rack in names for name in rack]
    every = ",".join(listed)
    domains = [listed[first : first + domain] for first in range(0, len(listed), domain)] if domain else []
    data: dict[str, Any] = {
        "tick": 20,
        "dry_run_until": until,
        "resume": "transient",
        "caps": {**CAPS, **caps},
        "nodes": {
            "racks": {f"r{number}": ",".join(rack) for number, rack in enumerate(names, 1)},
            "partitions": {"all": every, **({"half": ",".join(listed[: len(listed) // 2])} if domain else {})},
            "profiles": {"gpu8": every if profile is None else profile},
            "leaves": {f"leaf-{number}": ",".join(rack) for number, rack in enumerate(names, 1)},
            "nvlink_domains": {f"d{number}": ",".join(members) for number, members in enumerate(domains, 1)},
        },
        "state": "/none",
        "textfile": "",
    }
    return control_settings.build(data)


def report(
    health_class: str, *checks: str, time: int = int(NOW), status: str = "fail", jobs: tuple[int, ...] = ()
) -> str:
    """Return an Extra with a report."""
    found = NodeReport(status, health_class, checks, time, "5f2c1a90", jobs, "ab12cd34")
    return node_extra.merged("", found)


OK = node_extra.merged("", NodeReport("ok", "", (), int(NOW), "5f2c1a90"))


def ours(text: str) -> str:
    """Return a reason of the limiter."""
    return written(HEALTH, "limiter", text)


def view(racks: int = 10, each: int = 10, **special: tuple[str, str, str]) -> ClusterView:
    """Return idle nodes without a finding; `special` are states, Extra and reason by name."""
    names = [f"n{number + 1}" for number in range(racks * each)]
    nodes: dict[str, NodeState] = {}
    for name in names:
        states, extra, reason = special.get(name, ("idle", OK, ""))
        nodes[name] = node_state(name, states, extra, reason)
    return ClusterView(nodes)
