# SPDX-License-Identifier: GPL-3.0-or-later
"""Health of nodes and monitoring as the file states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any


@dataclass(frozen=True, slots=True)
class IgnoredCheck:
    """A check whose findings drain no node; `until` is the last day, None without an end."""

    check: str
    reason: str
    until: date | None


@dataclass(frozen=True, slots=True)
class DrainCaps:
    """Most unavailable nodes when a node is drained: percent of nodes, a number, drains in seconds, nodes kept in each partition."""

    cluster: int
    nodes: int
    partition: int
    rack: int
    nvlink_domain: int
    drains: int
    seconds: int
    keep: int


@dataclass(frozen=True, slots=True)
class Health:
    """The rules by which sick nodes are noticed and drained. Times in seconds, `evidence_bytes` in bytes.

    `dry_run_until`: from this day on the controllers drain; None: never. `gate`: open, prolog or strict. `thresholds`: profile or GPU
    model -> quantity -> keys of its row.
    """

    dry_run_until: date | None
    gate: str
    interval: int
    quiet_after_boot: int
    drain: DrainCaps
    resume: str
    ignore: tuple[IgnoredCheck, ...]
    thresholds: Mapping[str, Mapping[str, Mapping[str, Any]]]
    evidence_days: int
    evidence_bytes: int
    # Where each job has its own /tmp; "": jobs share it.
    private_tmp: str = ""

    def thresholds_of(self, model: str, profile: str) -> dict[str, dict[str, Any]]:
        """Return the site's thresholds of a profile by quantity: a profile over its GPU model, key by key."""
        found: dict[str, dict[str, Any]] = {}
        for name in (model, profile):
            for quantity, keys in self.thresholds.get(name, {}).items():
                found[quantity] = {**found.get(quantity, {}), **keys}
        return found


@dataclass(frozen=True, slots=True)
class ProfileHealth:
    """The needs of jobs on nodes of a profile: how many rails (None: all), NVLink (None: as its GPU model has it), mount points."""

    rails_needed: int | None = None
    nvlink: bool | None = None
    mounts: tuple[str, ...] = ()


NO_NEEDS = ProfileHealth()


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Files for the Prometheus of the site: its hosts, whether Slurm's exporter runs, ports of exporters (0: no target)."""

    servers: tuple[str, ...] = ()
    slurm_exporter: bool = False
    slurm_port: int = 9341
    node_port: int = 9100
    dcgm_port: int = 0
    textfile: str = "/var/lib/prometheus/node-exporter"
