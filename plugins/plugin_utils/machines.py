# SPDX-License-Identifier: GPL-3.0-or-later
"""What filters say of machines: plain data, and /etc/hosts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, Host, Node

_HEAD = """\
# Written by bedplate from the cluster file. Changes made here are overwritten.
127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
"""


def machine_facts(machine: Node | Host) -> dict[str, Any]:
    """Return a machine as plain data; a node has its rack and its profile with all it says."""
    return asdict(machine)


def hosts_file(cluster: Cluster) -> str:
    """Return /etc/hosts: every machine with its full name, and its BMC as <name>-bmc."""
    lines = []
    for machine in cluster.machines.values():
        full = f" {machine.name}.{cluster.domain}" if cluster.domain else ""
        lines.append(f"{machine.address}{full} {machine.name}\n")
        if machine.bmc_address:
            lines.append(f"{machine.bmc_address} {machine.name}-bmc\n")
    return _HEAD + "".join(lines)
