# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that Ansible, Slurm or the name service would take for one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .model import Cluster, Profile
from .schema.fields import Mistakes, Path, dotted

# Words of Slurm's own, where a NodeSet or a feature has a name.
_EVERY_NODE = {"all", "default"}
_RESERVED = {"all", "bedplate", "localhost", "ungrouped"}


def group_name(prefix: str, name: str) -> str:
    """Return a valid group name.

    >>> group_name("rack", "A-01")
    'rack_a_01'
    """
    return f"{prefix}_{name}".replace("-", "_").lower()


def check_names(cluster: Cluster, mistakes: Mistakes) -> None:
    """Note every name that clashes with another."""
    _check_groups("rack", cluster.racks, "racks", mistakes)
    _check_groups("partition", cluster.partitions, "partitions", mistakes)
    _check_machines(cluster, mistakes)
    for profile in cluster.profiles.values():
        _check_features(profile, cluster, mistakes)


def _check_groups(prefix: str, names: Iterable[str], section: str, mistakes: Mistakes) -> None:
    seen: dict[str, str] = {}
    for name in names:
        group = group_name(prefix, name)
        if group in seen:
            mistakes.add(
                (section, name), f"{name!r} makes the group {group}, as {seen[group]!r} does. Rename one of them."
            )
        seen[group] = name


def _check_machines(cluster: Cluster, mistakes: Mistakes) -> None:
    machines = cluster.machines
    for name in _RESERVED.intersection(machines):
        mistakes.add(_where(cluster, name), f"{name!r} has another meaning in Ansible. Rename the machine.")
    for name, machine in machines.items():
        if machine.bmc_address and f"{name}-bmc" in machines:
            mistakes.add(_where(cluster, f"{name}-bmc"), f"'{name}-bmc' is the name of the BMC of {name} already.")


def _where(cluster: Cluster, name: str) -> Path:
    return ("hosts", name) if name in cluster.hosts else ("racks",)


def _check_features(profile: Profile, cluster: Cluster, mistakes: Mistakes) -> None:
    """A feature makes a node part of every partition that selects by it: each name has one meaning."""
    path: Path = ("profiles", profile.name)
    where: Path
    for where, name in _words(profile, path):
        if name.lower() in _EVERY_NODE:
            mistakes.add(
                where, f"{name!r} means every node to Slurm, or the values that others start from. Choose another."
            )
        if name.startswith("rack_"):
            mistakes.add(where, f"{name!r}: names with rack_ are reserved for racks. Choose another.")
        if name in cluster.machines:
            mistakes.add(where, f"{name!r} is also the name of a machine. Choose another.")
        for other in cluster.profiles.values():
            if other is profile:
                continue
            if name == other.name and where != path:
                mistakes.add(where, f"{name!r} is the name of {dotted(('profiles', other.name))}. Choose another.")
            model = other.gpus.model if other.gpus else None
            if (
                name == model
                and where != (*path, "gpus", "model")
                and not (profile.gpus and profile.gpus.model == name)
            ):
                mistakes.add(where, f"{name!r} is the GPU model of {dotted(('profiles', other.name))}. Choose another.")


def _words(profile: Profile, path: Path) -> Iterator[tuple[Path, str]]:
    yield path, profile.name
    if profile.gpus:
        yield (*path, "gpus", "model"), profile.gpus.model
    for number, feature in enumerate(profile.features):
        yield (*path, "features", number), feature
