# SPDX-License-Identifier: GPL-3.0-or-later
"""Racks, their nodes, and the hosts beside them: names and addresses, in file order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, expand
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from .addresses import Book
from .model import Host, HostNic, Network, Node, Profile, Rack
from .profiles import fabric_of_nic
from .schema.cluster_file import NODE, RACK, SWITCH
from .schema.fields import Field, Mistakes, Path, allowed, dotted

# What a rack says of its nodes; without any, it is there for the hosts that stand in it.
_OF_NODES = ("profile", "leaf", "leaves", "nvlink_domain", "nvlink_domain_name", "address", "bmc_address", "exceptions")
_Exceptions = Mapping[str, Mapping[str, Any]]


def hostlist(text: str | None, path: Path, mistakes: Mistakes, rule: Field | None = None) -> list[str]:
    """Expand a hostlist; a mistake in it, or in a name of it, is noted. An empty result means one mistake."""
    if text is None:
        return []
    try:
        names = expand(text)
    except HostlistError as error:
        mistakes.add(path, str(error))
        return []
    if not names:
        mistakes.add(path, f"{text!r} names nothing.")
    if rule and rule.pattern:
        match = re.compile(rule.pattern).fullmatch
        for name in names:
            if not match(name):
                mistakes.add(path, f"{name!r} is not allowed. {rule.allowed}")
                return []
    return names


def more(names: list[str]) -> str:
    """Return the text after the first of some names: " and 3 more", or empty."""
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


class Floor:
    """Walks hosts and racks in file order, and hands out names and addresses."""

    def __init__(
        self,
        networks: Mapping[str, Network],
        profiles: Mapping[str, Profile],
        mistakes: Mistakes,
        fabrics: Sequence[str] = (),
    ) -> None:
        self.profiles, self.mistakes, self.fabrics = profiles, mistakes, fabrics
        self.management, self.bmc = (
            Book(networks[name], mistakes) if name in networks else None for name in ("management", "bmc")
        )
        self.hosts: dict[str, Host] = {}
        self.racks: dict[str, Rack] = {}
        self.nodes: list[Node] = []
        # Every name that is described, right or wrong, and where.
        self.owner: dict[str, Path] = {}
        # Whether some names could not be read: then an unknown name elsewhere may be no mistake.
        self.incomplete = False
        # Whether the names of some racks could not be.
        self.unread_racks = False

    def build(self, hosts: Mapping[str, Any], racks: Mapping[str, Any]) -> None:
        """Fill in hosts, racks and nodes; addresses that are stated are entered before any is counted."""
        for name, host in hosts.items():
            path: Path = ("hosts", name)
            self.owner[name] = path
            address, bmc = self._given(host, name, path)
            self.hosts[name] = Host(name, address or "", bmc, host["rack"], self._nics(host["nics"], path))
        exceptions = {key: self._exceptions(key, rack["exceptions"]) for key, rack in racks.items()}
        for key, rack in racks.items():
            self._rack(key, rack, exceptions[key])
        if racks and not any(rack["nodes"] for rack in racks.values()) and not self._told("racks"):
            self.mistakes.add(("racks",), "no rack has nodes: there is nothing to run jobs on.")
        for name, host in self.hosts.items():
            if host.rack and host.rack not in self.racks and not self.unread_racks:
                known = list(self.racks)
                hint = f"A rack without nodes is a separate entry under `racks`: `{host.rack}: {{}}`."
                self.mistakes.add(
                    ("hosts", name, "rack"),
                    f"rack {host.rack!r} is unknown.{did_you_mean(host.rack, known) or allowed(known)} {hint}",
                )

    def _nics(self, data: list[Any], path: Path) -> tuple[HostNic, ...]:
        """Return the NICs of a host."""
        found: dict[str, HostNic] = {}
        for number, nic in enumerate(data):
            where: Path = (*path, "nics", number)
            if not nic or not nic["name"]:
                continue
            if nic["name"] in found:
                self.mistakes.add(where, f"NIC {nic['name']!r} is described twice.")
            if nic["port"] and not nic["leaf"]:
                self.mistakes.add((*where, "port"), "a port needs its 'leaf'. State both, or neither.")
            place = (nic["rail"], nic["purpose"] or "management", nic["leaf"], nic["port"])
            texts: dict[str, Any] = {key: nic[key] or "" for key in ("fabric_name", "speed", "width")}
            fabric = fabric_of_nic(nic, where, self.fabrics, self.mistakes)
            found[nic["name"]] = HostNic(nic["name"], *place, **texts, fabric=fabric)
        return tuple(found.values())

    def _told(self, where: str) -> bool:
        """Return whether a mistake has been noted at a place, or below it."""
        return any(mistake.where == where or mistake.where.startswith(f"{where}.") for mistake in self.mistakes.found)

    def _given(self, data: Mapping[str, Any], name: str, path: Path) -> tuple[str | None, str | None]:
        """Enter the stated addresses of one machine."""
        address = self.management.given(data["address"], name, (*path, "address")) if self.management else None
        where = (*path, "bmc_address")
        self._needs_bmc(data["bmc_address"], where)
        return address, self.bmc.given(data["bmc_address"], name, where) if self.bmc else None

    def _needs_bmc(self, address: str | None, path: Path) -> None:
        # A network that is described but of no use is a mistake of its own.
        if address and ("networks", "bmc") not in self.mistakes.lines:
            self.mistakes.add(path, "there is no network for it. Describe the network `bmc` under `networks`.")

    def _exceptions(self, key: str, data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the exceptions of a rack by node, with their addresses entered."""
        found: dict[str, dict[str, Any]] = {}
        for text, exception in data.items():
            path: Path = ("racks", key, "exceptions", text)
            names = hostlist(text, path, self.mistakes, NODE)
            if exception["state"] and not exception["reason"]:
                self.mistakes.add(path, "a state needs a 'reason': it is what operators see in sinfo.")
            if exception["profile"]:
                self._profile(exception["profile"], (*path, "profile"))
            if len(names) > 1 and (exception["address"] or exception["bmc_address"]):
                self.mistakes.add(
                    path, f"one address cannot be that of {len(names)} nodes. Write an exception for each."
                )
                continue
            if twice := [name for name in names if name in found]:
                self.mistakes.add(path, f"{twice[0]}{more(twice)} has an exception already.")
            for name in names:
                address, bmc = self._given(exception, name, path)
                found[name] = {**exception, "address": address, "bmc_address": bmc, "path": path}
        return found

    def _rack(self, key: str, data: Mapping[str, Any], exceptions: dict[str, dict[str, Any]]) -> None:
        path: Path = ("racks", key)
        names = hostlist(key, path, self.mistakes, RACK)
        self.unread_racks = self.unread_racks or not names
        stated = [item for item in _OF_NODES if data[item]]
        if stated and not data["nodes"] and not self._told(dotted(path)):
            self.mistakes.add(
                path, f"'nodes' is missing: a rack without nodes has no {stated[0]!r}, only a row and a column."
            )
        leaves = self._shared(data["leaf"], names, (*path, "leaf"), SWITCH) or [f"leaf-{name}" for name in names]
        others = self._leaves(data["leaves"], names, (*path, "leaves"))
        domains = self._shared(data["nvlink_domain_name"], names, (*path, "nvlink_domain_name"), RACK)
        racks = []
        for index, name in enumerate(names):
            if name in self.racks:
                self.mistakes.add(path, f"rack {name} is described already. A rack has one entry.")
            column = None if data["column"] is None else data["column"] + index
            place = (data["row"], column, leaves[index], data["pod"])
            of_others = tuple((fabric, listed[index]) for fabric, listed in others.items())
            racks.append(Rack(name, *place, data["nvlink_domain"], domains[index] if domains else None, of_others))
            self.racks[name] = racks[-1]
        for number, entry in enumerate(data["nodes"]):
            if entry:
                self._entry(number, entry, racks, data, path, exceptions)
        if exceptions and not self.incomplete:
            known = {name: None for name, where in self.owner.items() if where[:2] == path}
            strangers: dict[Path, list[str]] = {}
            for name in [name for name in exceptions if name not in known]:
                strangers.setdefault(exceptions[name]["path"], []).append(name)
            # One mistake for each line of the file, however many names its hostlist has.
            for where, names in strangers.items():
                hint = did_you_mean(names[0], list(known))
                self.mistakes.add(where, f"{names[0]!r}{more(names)}: not a node of this rack.{hint}")

    def _leaves(self, data: Mapping[str, str], racks: list[str], path: Path) -> dict[str, list[str]]:
        """Return fabric -> the leaf of each rack of an entry, for fabrics after the first."""
        found = {}
        for fabric, text in data.items():
            if fabric in self.fabrics[:1]:
                self.mistakes.add((*path, fabric), f"{fabric} is the first fabric. Its leaf is `leaf` of the rack.")
            elif fabric not in self.fabrics and ("fabrics", fabric) not in self.mistakes.lines:
                self.mistakes.unknown((*path, fabric), "fabric", fabric, self.fabrics[1:])
            else:
                found[fabric] = self._shared(text, racks, (*path, fabric), SWITCH)
        return found

    def _shared(self, text: str | None, racks: list[str], path: Path, rule: Field) -> list[str]:
        """Return the name for each rack of an entry: leaves or NVLink domains, over which the racks are split evenly; [] without any."""
        if text is None:
            return []
        what = "NVLink domains" if path[-1] == "nvlink_domain_name" else "leaves"
        names = hostlist(text, path, self.mistakes, rule) or [str(path[-1])]
        each, rest = divmod(len(racks), len(names))
        if rest or (racks and not each):
            self.mistakes.add(
                path,
                f"{text!r} are {len(names)} {what} for {len(racks)} racks. Allowed: one for all, one for each, or as many as "
                "split them evenly.",
            )
            return names[:1] * len(racks)
        return [name for name in names for _unused in range(each)]

    def _entry(
        self, number: int, data: Mapping[str, Any], racks: list[Rack], rack: Mapping[str, Any], rack_path: Path,
        exceptions: _Exceptions,
    ) -> None:  # fmt: skip
        path: Path = (*rack_path, "nodes", number)
        names = hostlist(data["names"], (*path, "names"), self.mistakes, NODE)
        profile = self._entry_profile(data["profile"] or rack["profile"], rack, (*path, "profile"))
        self.incomplete = self.incomplete or not names
        if not names or not self._own(names, (*path, "names")) or not racks or profile is None:
            return
        if len(names) % len(racks):
            self.mistakes.add(
                (*path, "names"),
                f"{len(names)} nodes cannot be split evenly over {len(racks)} racks. Write the uneven rack by itself.",
            )
            return
        columns = []
        for book, key in ((self.management, "address"), (self.bmc, "bmc_address")):
            stated = {name: one[key] for name, one in exceptions.items() if one[key]}
            # The rack's address is that of its first node; what follows counts on.
            text, where = (data[key], path) if data[key] or number else (rack[key], rack_path)
            where = (*where, key)
            if key == "bmc_address":
                self._needs_bmc(text, where)
            columns.append(book.run(names, stated, text, ((*path, "names"), where)) if book else [None] * len(names))
        self._add(names, racks, profile, columns, exceptions)

    def _add(
        self, names: list[str], racks: list[Rack], profile: Profile, columns: list[Any], exceptions: _Exceptions
    ) -> None:
        per_rack = len(names) // len(racks)
        rack_of = [rack for rack in racks for _unused in range(per_rack)]
        for name, rack, address, bmc in zip(names, rack_of, *columns, strict=True):
            if exceptions and (exception := exceptions.get(name)):
                other = self.profiles.get(exception["profile"] or "", profile)
                stated = (exception["state"], exception["reason"], exception["image"] or "")
                node = Node(name, rack, other, address or "", bmc, *stated)
            else:
                node = Node(name, rack, profile, address or "", bmc, None, None)
            self.nodes.append(node)

    def _own(self, names: list[str], path: Path) -> bool:
        """Enter names; return False if all of them are known already, so that one slip is one mistake."""
        twice = [name for name in names if name in self.owner]
        repeated = len(names) - len(set(names))
        if repeated:
            self.mistakes.add(path, f"names {repeated} of its nodes twice.")
        if twice:
            self.mistakes.add(path, f"{twice[0]}{more(twice)}: described already in {dotted(self.owner[twice[0]])}.")
        self.owner.update(dict.fromkeys(names, path[:-1]))
        return not twice and not repeated

    def _entry_profile(self, name: str | None, rack: Mapping[str, Any], path: Path) -> Profile | None:
        if name is None:
            self.mistakes.add(path[:-1], "has no 'profile', and its rack lacks it too.")
            return None
        where = (*path[:2], "profile") if name == rack["profile"] else path
        return self._profile(name, where)

    def _profile(self, name: str, path: Path) -> Profile | None:
        # A profile that is there but of no use is a mistake of its own.
        if name not in self.profiles and ("profiles", name) not in self.mistakes.lines:
            self.mistakes.unknown(path, "profile", name, self.profiles)
        return self.profiles.get(name)
