# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in a role's variables that take more than one of them to see, or more than an argument spec can say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from ..cluster import Cluster, Node, Profile
from ..common.role_choices import defaults
from ..health import node_health_part
from ..parts.site_mistakes import site_mistakes
from ..parts.site_sources import Reader, source_mistakes
from ..provision_host import image_part, provision_part
from ..rdma import rdma_part
from ..slurm import slurm_packages
from ..tuning import tuning_part

MISTAKES: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "node_tuning": tuning_part.mistakes,
    # A key is read only where it is needed.
    "rdma": partial(rdma_part.mistakes, keys=False),
    "node_health": node_health_part.mistakes,
    "provision": provision_part.mistakes,
    "image": image_part.mistakes,
}
"""Role -> what finds mistakes in its variables, given by what is behind `<role>_`."""

ROLES = (
    "node_os",
    "node_tuning",
    "rdma",
    "gpu_driver",
    "cuda",
    "dcgm",
    "container_runtime",
    "slurm",
    "opensm",
    "node_health",
    "health_control",
    "provision",
    "image",
)

_GPU = ("gpu_software",)
OF_PROFILE: dict[str, Callable[[Profile, Mapping[str, Any]], Iterator[str]]] = {
    "node_tuning": tuning_part.profile_mistakes,
}
"""Role -> what finds mistakes in its variables on the nodes of a profile."""
RUNS_ON: dict[str, tuple[str, ...]] = {
    "node_os": ("bedplate",),
    "node_tuning": ("compute_nodes",),
    "rdma": ("rdma_nodes",),
    **dict.fromkeys(("gpu_driver", "cuda", "dcgm", "container_runtime"), _GPU),
    "opensm": ("subnet_managers",),
    "node_health": ("health_nodes",),
    "health_control": ("slurm_controllers", "monitoring_servers"),
    **dict.fromkeys(("provision", "image"), ("provision_hosts",)),
    "slurm": (
        "slurm_controllers",
        "slurm_database",
        "slurm_login",
        "slurm_rest",
        "slurm_script_hosts",
        "compute_nodes",
    ),
}
"""Role -> groups on which the playbooks run it."""

Values = Callable[[Any, str], Mapping[str, Any] | None]


class AnsibleHost(Protocol):
    """A host as Ansible has it."""

    name: str

    def get_groups(self) -> Iterable[Any]:
        """Return the groups that it is in."""


def grouped_by_variables(hosts: Iterable[AnsibleHost], deciding: Collection[str]) -> Iterator[list[AnsibleHost]]:
    """Yield the hosts in lists, one for all that have the same variables.

    `deciding` are the places that have some, as `group gpu_nodes` and `host gpu01`. To ask Ansible for the variables of each of ten
    thousand hosts takes many seconds.
    """
    found: dict[tuple[str, ...], list[AnsibleHost]] = {}
    for host in hosts:
        own = [f"host {host.name}", *(f"group {group.name}" for group in host.get_groups())]
        found.setdefault(tuple(place for place in own if place in deciding), []).append(host)
    yield from found.values()


def runs_on(host: AnsibleHost, role: str) -> bool:
    """Return whether the playbooks run a role on a host."""
    return any(group.name in RUNS_ON[role] for group in host.get_groups())


def mistakes(
    hosts: Collection[AnsibleHost],
    places: Mapping[str, Iterable[str]],
    templated: Collection[str],
    values: Values,
    read: Reader,
    cluster: Cluster | None = None,
) -> dict[str, list[str]]:
    """Return mistake -> hosts that have it. `cluster`: that of the run; None without a cluster file and without Slurm.

    `places` are those that set a variable, by its name; `values` returns a role's variables on a host, None where they cannot be told;
    `read` returns a file of the control node. What a `templated` variable is may differ from host to host: of the hosts that share
    one, the first that runs the role is checked, and it alone is named.
    """
    found: dict[str, list[str]] = {}
    for role in ROLES:
        is_templated = any(name.startswith(f"{role}_") for name in templated)
        deciding = {place for name, where in places.items() if name.startswith(f"{role}_") for place in where}
        for members in grouped_by_variables(hosts, deciding) if deciding else ():
            first = next((host for host in members if runs_on(host, role)), members[0])
            choices = values(first, role)
            named = [first] if is_templated else members
            for text in _of_role(role, choices, read, cluster) if choices is not None else ():
                found.setdefault(text, []).extend(f"host {host.name}" for host in named)
            if choices is not None and cluster is not None and role in OF_PROFILE and choices["manage"]:
                for text, host in _of_profiles(role, choices, named, cluster):
                    found.setdefault(text, []).append(f"host {host.name}")
    return found


def _of_profiles(
    role: str, choices: Mapping[str, Any], hosts: Iterable[AnsibleHost], cluster: Cluster
) -> Iterator[tuple[str, AnsibleHost]]:
    """Yield each mistake of a role's variables on the profile of a host, with the host."""
    texts: dict[str, list[str]] = {}
    for host in hosts:
        machine = cluster.machines.get(host.name)
        if isinstance(machine, Node):
            profile = machine.profile
            if profile.name not in texts:
                texts[profile.name] = list(OF_PROFILE[role](profile, choices))
            yield from ((text, host) for text in texts[profile.name])


def _of_role(role: str, choices: Mapping[str, Any], read: Reader, cluster: Cluster | None) -> Iterator[str]:
    if role in MISTAKES and choices.get("manage", True):
        yield from MISTAKES[role](choices)
    yield from site_mistakes(role, choices)
    yield from source_mistakes(role, choices, read)
    if cluster is not None and role == "slurm":
        yield from slurm_packages.mistakes(cluster, choices)
    if cluster is not None and role == "container_runtime" and choices["pyxis"]:
        by_default = list(choices["pyxis_packages"]) == defaults(role)["container_runtime_pyxis_packages"]
        yield from slurm_packages.header_mistakes(cluster) if by_default else ()
