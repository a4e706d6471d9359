# SPDX-License-Identifier: GPL-3.0-or-later
"""Group hosts for which the changes of a site have the same mistakes, so that each group is checked once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from ..cluster import Cluster, Node
from .role_mistakes import RUNS_ON, AnsibleHost
from .site_changes import VARIABLES

# Each host has its own; a mistake that depends on one of these is found on the first host alone.
_ADDRESSES = ("ansible_host", "bedplate_address")
_DECISIVE = ("bedplate_", *(f"{role}_" for role in RUNS_ON))
# Lists with one value each; a check of one takes up to 10 ms.
_MOST = 500
_GROUPS = {group for groups in RUNS_ON.values() for group in groups}
_RUN = "this run"


def changing_places(places: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the places that set a variable with a site's changes; `places` has the places of each variable."""
    names = {f"{role}_{name}" for role in RUNS_ON for name in VARIABLES}
    return {place for name in names & set(places) for place in places[name]}


def kinds(
    hosts: Iterable[AnsibleHost],
    changing: AbstractSet[str],
    own: Callable[[Any], Mapping[str, Any]],
    groups: Collection[str],
    cluster: Cluster | None,
) -> Iterator[list[AnsibleHost]]:
    """Yield the hosts with a site's changes in lists, one for all that are alike: in groups, own variables and profile.

    Where that makes too many lists, hosts are alike that have own variables of the same names; those of roles must still be equal.
    `own` returns the variables of a host that no group sets; `groups` are those with variables.
    """
    deciding = _GROUPS | set(groups)
    by_value: dict[tuple[Any, ...], list[AnsibleHost]] = {}
    by_name: dict[tuple[Any, ...], list[AnsibleHost]] = {}
    for host in hosts:
        names = [group.name for group in host.get_groups()]
        if _RUN in changing or not changing.isdisjoint((f"host {host.name}", *(f"group {name}" for name in names))):
            variables = sorted((name, repr(value)) for name, value in own(host).items() if name not in _ADDRESSES)
            key = (tuple(sorted(deciding & set(names))), _profile(host.name, cluster))
            by_value.setdefault((*key, *variables), []).append(host)
            decisive = [one if one[0].startswith(_DECISIVE) else one[0] for one in variables]
            by_name.setdefault((*key, *decisive), []).append(host)
    yield from (by_value if len(by_value) <= _MOST else by_name).values()


def _profile(name: str, cluster: Cluster | None) -> str:
    """Return what decides the parts of a machine in the cluster file: the profile of a node, or the machine itself."""
    machine = cluster.machines.get(name) if cluster else None
    if isinstance(machine, Node):
        return f"{machine.profile.name} {machine.nvlink_domain or ''}"
    return f"host {name}" if machine else ""
