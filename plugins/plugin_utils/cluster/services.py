# SPDX-License-Identifier: GPL-3.0-or-later
"""Services and partitions: what refers to machines by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .model import Node, Partition, Profile, Services
from .rack_layout import Floor, hostlist
from .schema.fields import Mistakes, Path

_SELECTORS = "Allowed: all, a hostlist, rack:NAME, profile:NAME, model:NAME."


def services_of(data: Mapping[str, Any] | None, floor: Floor, mistakes: Mistakes) -> Services:
    """Return the hosts of each service."""
    found = {
        service: hosts_of(data[service] if data else (), ("services", service), floor, mistakes)
        for service in ("controllers", "database", "login", "rest", "subnet_managers")
    }
    if len(found["database"]) > 1:
        mistakes.add(("services", "database"), f"names {len(found['database'])} hosts; allowed: one database.")
    return Services(**found)


def hosts_of(texts: Iterable[str | None], key: Path, floor: Floor, mistakes: Mistakes) -> tuple[str, ...]:
    """Return the hosts of a list of names and hostlists, in order; unknown and repeated ones are noted."""
    names: dict[str, None] = {}
    for number, text in enumerate(texts):
        path: Path = (*key, number)
        listed = hostlist(text, path, mistakes)
        unknown = [name for name in listed if name not in floor.owner and ("hosts", name) not in mistakes.lines]
        if unknown and not floor.incomplete:
            mistakes.unknown(path, "host", unknown[0], floor.owner, len(unknown) - 1)
        once(listed, names, path, mistakes)
    return tuple(names)


def once(listed: list[str], names: dict[str, None], path: Path, mistakes: Mistakes) -> None:
    """Add names to the earlier ones; note the first duplicate."""
    twice = ""
    for name in listed:
        twice = twice or (name if name in names else "")
        names[name] = None
    if twice:
        mistakes.add(path, f"{twice} is named twice.")


def partitions_of(
    data: Mapping[str, Any], floor: Floor, profiles: Mapping[str, Profile], mistakes: Mistakes
) -> dict[str, Partition]:
    """Return the partitions, each with its nodes in file order."""
    selecting = Selecting(floor, profiles, mistakes)
    partitions = {}
    for name, partition in data.items():
        path: Path = ("partitions", name, "nodes")
        selectors = tuple(item for item in partition["nodes"] if item is not None)
        chosen = [
            selecting.nodes(item, (*path, number)) for number, item in enumerate(partition["nodes"]) if item is not None
        ]
        nodes = selecting.in_order(chosen)
        default = bool(partition["default"])
        partitions[name] = Partition(name, selectors, nodes, default, partition["max_time"], partition["options"])
    defaults = [name for name, partition in partitions.items() if partition.default]
    for name in defaults[1:]:
        mistakes.add(
            ("partitions", name, "default"), f"{defaults[0]} is the default partition already. There can be one."
        )
    return partitions


class Selecting:
    """Find the nodes of selectors; with `partitions` also nodes of Slurm's partitions, and hosts by their names."""

    def __init__(
        self,
        floor: Floor,
        profiles: Mapping[str, Profile],
        mistakes: Mistakes,
        partitions: Mapping[str, Partition] | None = None,
    ) -> None:
        self.floor, self.profiles, self.mistakes, self.partitions = floor, profiles, mistakes, partitions
        self.all = tuple(node.name for node in floor.nodes)

    def noting(self, mistakes: Mistakes) -> Selecting:
        """Return the same with another place for mistakes."""
        return Selecting(self.floor, self.profiles, mistakes, self.partitions)

    def in_order(self, chosen: list[tuple[str, ...]]) -> tuple[str, ...]:
        """Return each node once, in file order."""
        if chosen == [self.all]:
            return self.all
        names = {name for part in chosen for name in part}
        return tuple(name for name in self.all if name in names)

    def nodes(self, selector: str, path: Path) -> tuple[str, ...]:
        """Return the nodes of one selector; mistakes are noted."""
        if selector == "all":
            return self.all
        kind, colon, text = selector.partition(":")
        if not colon:
            return self._names(hostlist(selector, path, self.mistakes), path)
        profiles = self.profiles.values()
        if kind == "rack":
            racks = self._wanted("rack", hostlist(text, path, self.mistakes), self.floor.racks, path)
            chosen = [node for node in self.floor.nodes if node.rack.name in racks]
        elif kind == "profile":
            names = self._wanted("profile", [text], self.profiles, path)
            chosen = [node for node in self.floor.nodes if node.profile.name in names]
        elif kind == "model":
            models = dict.fromkeys(profile.gpus.model for profile in profiles if profile.gpus)
            names = self._wanted("GPU model", [text], models, path)
            chosen = [node for node in self.floor.nodes if node.profile.gpus and node.profile.gpus.model in names]
        elif kind == "partition" and self.partitions is not None:
            named = self._wanted("partition", [text], self.partitions, path)
            return tuple(name for partition in named for name in self.partitions[partition].nodes)
        else:
            self.mistakes.add(path, f"{kind!r} is not a kind of selector. {self._allowed}")
            return ()
        return self._some(selector, chosen, path)

    @property
    def _allowed(self) -> str:
        return _SELECTORS if self.partitions is None else f"{_SELECTORS[:-1]}, partition:NAME."

    def _some(self, selector: str, chosen: list[Node], path: Path) -> tuple[str, ...]:
        # Where anything is wrong already, the nodes may be among what could not be read.
        if not chosen and not self.mistakes.found:
            self.mistakes.add(path, f"{selector!r} names nothing: no node is like that.")
        return tuple(node.name for node in chosen)

    def _names(self, names: list[str], path: Path) -> tuple[str, ...]:
        hosts = [name for name in names if name in self.floor.hosts] if self.partitions is None else []
        unknown = [name for name in names if name not in self.floor.owner]
        if hosts:
            self.mistakes.add(path, f"{hosts[0]} is a host, not a node of a rack. {_SELECTORS}")
        elif unknown and not self.floor.incomplete:
            what, known = ("node", self.all) if self.partitions is None else ("machine", tuple(self.floor.owner))
            self.mistakes.unknown(path, what, unknown[0], known, len(unknown) - 1)
        return tuple(names)

    def _wanted(self, what: str, names: list[str], known: Iterable[str], path: Path) -> set[str]:
        found = set(known)
        # With a rack, or a profile, that could not be read, its name may be right.
        section = {"rack": "racks", "profile": "profiles", "partition": "partitions"}.get(what, "")
        unknown = [name for name in names if name not in found and (section, name) not in self.mistakes.lines]
        if unknown:
            self.mistakes.unknown(path, what, unknown[0], known, len(unknown) - 1)
        return found.intersection(names)
