# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the facts about a node at one moment: readings of quantities, events of the kernel's log, expectations of the profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

Value = Union[int, float, str, None]


@dataclass(frozen=True)
class Reading:
    """Hold one quantity of one device. `value` None: it was not read, and `problem` states why; never taken for a good value.

    `quantity` is a name of thresholds.json, such as `ecc-corrected`. `device`: PCI address, HCA and port such as `mlx5_0/1`, mount point,
    "" for the node. `source`: `nvml`, `nvidia-smi`, `procfs`, `sysfs`, `mount`, `dcgm`, `gpud`, `validation`, or a foreign check's name.
    """

    quantity: str
    device: str
    value: Value
    source: str
    problem: str = ""


@dataclass(frozen=True)
class KernelEvent:
    """Hold one event of the kernel's log. `kind`: `xid`, `sxid`, `mlx5`, `pcie`, `gap` or another name of kernel_events.py.

    `code`: number of the XID or SXid. `device`: PCI address of the GPU, switch or NIC, "" if the line has none. `sequence`: number of the
    record; `uptime`: seconds since boot. `details`: words of the line that decide, such as {"severity": "Fatal", "link": "12"}.
    """

    kind: str
    code: int | None
    device: str
    text: str
    sequence: int
    uptime: float
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeProfile:
    """Hold what the cluster file expects of a node's health; /etc/bedplate/health.json, written by the role node_health.

    `model`: GPU model of the profile, such as `h100`, "" without GPUs. `gpus`: their number. `nvlink`: the node has NVSwitches or
    NVLink, so their links are judged. `rails`: HCA names that should be up, `rails_needed`: how many a job
    needs. `mounts`: mount points that must answer. `huge_pages`:
    size -> pages. `thresholds`: quantity -> the keys of a row of thresholds.json that the site changes. `ignore`: check ids that stay
    notes. `quiet_after_boot`: seconds in which links and fabric are not judged. `driver`: planned version, "" for any.
    """

    model: str = ""
    gpus: int = 0
    nvlink: bool = False
    rails: tuple[str, ...] = ()
    rails_needed: int = 0
    mounts: tuple[str, ...] = ()
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    thresholds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    quiet_after_boot: int = 600
    driver: str = ""


@dataclass(frozen=True)
class NodeFacts:
    """Hold one cycle of the agent. `boot`: boot id of the kernel. `uptime`: seconds since boot. `time`: seconds since 1970."""

    boot: str
    uptime: float
    time: float
    readings: tuple[Reading, ...] = ()
    events: tuple[KernelEvent, ...] = ()
    running_jobs: tuple[int, ...] = ()
