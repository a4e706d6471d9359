# SPDX-License-Identifier: GPL-3.0-or-later
"""Find mistakes in variables that request software of a host, and in inventories without a cluster file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..cluster import Cluster, Node
from ..plain.host_cluster import ADDRESS, DOMAIN, HARDWARE, host_cluster
from ..plain.plain_inventory import NODES, SERVICES
from ..plain.requested_stack import STACK, VARIABLES
from .role_mistakes import RUNS_ON, AnsibleHost, grouped_by_variables

REQUESTS = (STACK, *VARIABLES)
PLAIN = (HARDWARE, ADDRESS, DOMAIN)
"""Variables without a role's prefix, beside those of the roles."""


def is_plain(groups: Collection[str]) -> bool:
    """Return whether an inventory has a group that a role turns into a cluster."""
    return any(group in groups for group in (*SERVICES.values(), NODES))


def missing_groups(groups: Collection[str], roles: Iterable[str]) -> list[str]:
    """Return the mistake of groups that a run with these roles names in its plays and that the inventory does not have."""
    missing = [one for one in dict.fromkeys(group for role in roles for group in RUNS_ON[role]) if one not in groups]
    if not missing:
        return []
    example = ", ".join(f"{name}: {{}}" for name in missing)
    return [
        f"groups {', '.join(missing)}: this run names them, and this inventory does not have them: with host_pattern_mismatch = error "
        f"Ansible ends the run at their play. Add the hosts that they are for, or leave them empty: {example}"
    ]


def mistakes(
    hosts: Iterable[AnsibleHost],
    places: Mapping[str, Collection[str]],
    cluster: Cluster | None,
    variables: Callable[[AnsibleHost], tuple[Mapping[str, Any], Callable[[Any], Any]]],
    plain: bool = False,
) -> dict[str, list[str]]:
    """Return mistake -> hosts that have it.

    `places`: those that set a variable, by its name. `cluster` is that of the cluster file, None without one. `variables` returns those
    of a host, with what renders one of their values. `plain`: whether hardware and addresses are judged too, for an inventory that nothing
    else judges as a whole: one without a cluster file and without Slurm.
    """
    judged = (*REQUESTS, *PLAIN) if plain else REQUESTS
    found: dict[str, list[str]] = {}
    deciding = {place for name in (*REQUESTS, *PLAIN) for place in places.get(name, ())}
    if not any(name in places for name in judged):
        return found
    for members in grouped_by_variables(hosts, deciding):
        for same in _by_profile(members, cluster):
            given, template = variables(same[0])
            if all(given.get(name) is None for name in judged):
                continue
            try:
                host_cluster("gpu_driver", given, template)
            except (ValueError, KeyError) as error:
                for line in str(error.args[0]).splitlines():
                    text = line.removeprefix(f"host {same[0].name}: ")
                    found.setdefault(text, []).extend(f"host {host.name}" for host in same)
    return found


def _by_profile(members: Iterable[AnsibleHost], cluster: Cluster | None) -> list[list[AnsibleHost]]:
    """Return hosts in lists, one for each profile of the cluster file."""
    found: dict[str, list[AnsibleHost]] = {}
    for host in members:
        machine = cluster.machines.get(host.name) if cluster else None
        found.setdefault(machine.profile.name if isinstance(machine, Node) else "", []).append(host)
    return list(found.values())
