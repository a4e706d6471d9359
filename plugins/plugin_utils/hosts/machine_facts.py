# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of machines for filters, as plain data, and /etc/hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..cluster import Cluster, Host, Node, Profile

_HEAD = """\
# Written by bedplate from the cluster file. Changes made here are overwritten.
127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
"""


def machine_facts(cluster: Cluster, machine: Node | Host) -> dict[str, Any]:
    """Return a machine as plain data; a node has its rack and its profile with all they say."""
    if isinstance(machine, Node):
        return _node(cluster, machine, asdict(machine.rack), _hardware(machine.profile))
    return {**asdict(machine), "fqdn": _full_name(cluster, machine.name)}


def nodes_facts(cluster: Cluster) -> list[dict[str, Any]]:
    """Return all nodes as plain data; they share what they have in common."""
    racks = {name: asdict(rack) for name, rack in cluster.racks.items()}
    profiles = {name: _hardware(profile) for name, profile in cluster.profiles.items()}
    return [_node(cluster, node, racks[node.rack.name], profiles[node.profile.name]) for node in cluster.nodes]


def _hardware(profile: Profile) -> dict[str, Any]:
    """Return a profile without its GPU software, which the parts decide."""
    bare = asdict(replace(profile, gpu_stack=None))
    return {key: value for key, value in bare.items() if key != "gpu_stack"}


def _node(cluster: Cluster, node: Node, rack: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": node.name,
        "fqdn": _full_name(cluster, node.name),
        "rack": rack,
        "profile": profile,
        "address": node.address,
        "bmc_address": node.bmc_address,
        "state": node.state,
        "reason": node.reason,
    }


def _full_name(cluster: Cluster, name: str) -> str:
    return f"{name}.{cluster.domain}" if cluster.domain else name


def hosts_file(cluster: Cluster) -> str:
    """Return /etc/hosts: every machine with its full name first, and its BMC as <name>-bmc."""
    lines = []
    for name, machine in cluster.machines.items():
        lines.append(f"{machine.address} {_names(cluster, name)}\n")
        if machine.bmc_address:
            lines.append(f"{machine.bmc_address} {_names(cluster, f'{name}-bmc')}\n")
    return _HEAD + "".join(lines)


def os_expected(cluster: Cluster, name: str, time_servers: Sequence[str], manage_hosts: bool) -> dict[str, Any]:
    """Return what verify expects of names and time of a machine.

    Its own address and those of the hosts that are no nodes stand for all lines of /etc/hosts, whose digest is compared as well.
    """
    machines = cluster.machines
    named = [one for one in machines if one == name or not isinstance(machines[one], Node)]
    return {
        # slurmd of a node finds its line of slurm.conf by it; other hosts may have another name.
        "hostname": name if isinstance(machines[name], Node) else "",
        "names": {one: machines[one].address for one in named} if manage_hosts else {},
        "time_servers": list(time_servers),
    }


def _names(cluster: Cluster, name: str) -> str:
    return f"{name}.{cluster.domain} {name}" if cluster.domain else name
