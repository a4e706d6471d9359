# SPDX-License-Identifier: GPL-3.0-or-later
"""Software for a node's NVLink beside packages: IMEX's list of the nodes of its domain, and modules for the fabric manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...cluster import Cluster
from ...cluster.nvlink_domains import domain_of
from .. import stack_table
from ..resolve import Stack

IMEX = "nvidia-imex"
# Of the driver's nv-reg.h: channel 0, for all users. Slurm's plugin makes a channel for each job, which keeps jobs apart.
CHANNEL_OPTION, _BY_SLURM = "NVreg_CreateImexChannel0", "switch/nvidia_imex"
_CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"


def node_list(stack: Stack, cluster: Cluster, host: str) -> list[str]:
    """Return the text of IMEX's list of nodes, or nothing where the stack has no IMEX. KeyError: no node of a rack."""
    nodes = addresses(cluster, host) if stack.nodes_file else []
    return ["".join(f"{address}\n" for address in nodes)] if nodes else []


def module_options(stack: Stack, cluster: Cluster) -> dict[str, str]:
    """Return the options of the kernel module that NVLink needs: an IMEX channel, without which no memory is shared between nodes."""
    options = {name.lower(): value for name, value in cluster.slurm.options.items()}
    by_slurm = str(options.get("switchtype", "")).lower() == _BY_SLURM
    return {CHANNEL_OPTION: "1"} if stack.nodes_file and not by_slurm else {}


def expected(stack: Stack, cluster: Cluster, host: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Return what is compared on a node; `options` are the kernel module's."""
    nodes = addresses(cluster, host) if stack.nodes_file else []
    channel = _CHANNEL if stack.nodes_file and options.get(CHANNEL_OPTION, "0") != "0" else ""
    return {"nodes_file": stack.nodes_file, "nodes": nodes, "modules": list(stack.modules_load), "channel": channel}


def nvswitches(stack: Stack) -> dict[str, Any]:
    """Return the NVSwitches that the PCI bus of a node must show, as module_utils/gpu/nvswitches.py compares them; {} if not known."""
    return stack_table.default().switches_wanted(stack.platform, stack.nvswitches)


def addresses(cluster: Cluster, host: str) -> list[str]:
    """Return the addresses of the nodes of a node's NVLink domain, in file order. KeyError: no node of a rack."""
    return [one.address for one in domain_of(cluster, cluster.node(host))]
