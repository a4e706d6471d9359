# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric as the file states it: switches, ports and InfiniBand's partitions, checked as far as that needs no plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from .model import Fabric, NamedFabric, Profile, Services, SwitchTraits, Tenant
from .nvlink_domains import check_names
from .rack_layout import Floor, hostlist, more
from .schema.cluster_file import SWITCH
from .schema.fabric_keys import StatedFabric, mistakes_of
from .schema.fabric_section import BY_UNIT
from .schema.fields import Mistakes, Path, allowed
from .services import Selecting, hosts_of, once

_PLAIN = ("kind", "technology", "speed", "switch_ports", "cage_ports", "uplinks", "global_links", "oversubscription")
# Speeds of Quantum switches, each of which has an aggregation node.
_QUANTUM = ("HDR", "NDR", "XDR")
_TIERS = ("spines", "cores", "leaves")
# Keys that count cables, which a list of cables states one by one.
_COUNTS = ("uplinks", "global_links")
# Keys of Slurm's topology, which is that of the first fabric.
_OF_SLURM = ("top",)


def fabrics_of(
    sections: Mapping[str, tuple[StatedFabric, Mapping[str, Any] | None]],
    floor: Floor,
    selecting: Selecting,
    services: Services,
    mistakes: Mistakes,
) -> dict[str, NamedFabric]:
    """Return the fabrics by name, in the order of the file; `sections` has them as `stated_fabrics` returns them."""
    first = next(iter(sections.values()), (StatedFabric(), None))
    _check_domains(floor, first[0], first[1]["kind"] if first[1] else None, mistakes)
    found = {}
    for name, (stated, data) in sections.items():
        own = mistakes_of(mistakes, stated)
        managers = _managers(stated, data, floor, services, own)
        found[name] = NamedFabric(stated, fabric_of(stated, data, floor, selecting, own) if data else None, managers)
    _check_unmanaged(found, mistakes)
    return found


def _check_unmanaged(fabrics: Mapping[str, NamedFabric], mistakes: Mistakes) -> None:
    """Note further InfiniBand fabrics without subnet managers where another fabric has some."""
    if not any(one.subnet_managers for one in fabrics.values()):
        return
    for one in fabrics.values():
        key = one.stated.managers
        infiniband = one.fabric is not None and one.fabric.technology == "infiniband"
        if infiniband and not one.stated.first and not one.subnet_managers and key not in mistakes.lines:
            text = "no `subnet_managers`, so no OpenSM manages it. State its hosts, or [] where a switch manages it."
            mistakes.add(key, text)


def _managers(
    stated: StatedFabric, data: Mapping[str, Any] | None, floor: Floor, services: Services, mistakes: Mistakes
) -> tuple[str, ...]:
    """Return the subnet managers of a fabric: its own, else `services.subnet_managers`, which manage the first one."""
    if stated.managers[0] == "services":
        return services.subnet_managers
    if stated.first and services.subnet_managers:
        text = "`services` has `subnet_managers`, too, which manage the first fabric. Keep one of the two."
        mistakes.add(("fabric", "subnet_managers"), text)
    listed = data["subnet_managers"] if data else ()
    return hosts_of(listed, ("fabric", "subnet_managers"), floor, mistakes)


def fabric_of(
    stated: StatedFabric, data: Mapping[str, Any], floor: Floor, selecting: Selecting, mistakes: Mistakes
) -> Fabric:
    """Return a fabric; `mistakes` has its keys as `fabric.KEY`."""
    if not stated.first:
        for key in _OF_SLURM:
            if ("fabric", key) in mistakes.lines:
                mistakes.add(("fabric", key), "Slurm has the topology of the first fabric. Remove it.")
    switches = {tier: _switches(data[tier], tier, mistakes) for tier in _TIERS}
    for name in switches["cores"]:
        if name in switches["spines"]:
            mistakes.add(("fabric", "cores"), f"{name} is a spine already. A switch has one name and one tier.")
    top = data["top"] or "spine"
    racks = [rack.in_fabric(stated) for rack in floor.racks.values()]
    for rack in racks if stated.first else ():
        if rack.leaf == top:
            mistakes.add(("fabric", "top"), f"{top!r} is the leaf of rack {rack.name} already. A switch has one name.")
            break
    _check_leaves(switches, {rack.leaf: rack.name for rack in racks}, mistakes)
    return Fabric(
        tuple(switches["spines"]),
        top,
        data["rails"],
        **{key: data[key] for key in _PLAIN},
        sharp=_sharp(data, mistakes),
        cores=tuple(switches["cores"]),
        leaves=tuple(switches["leaves"]),
        missing=_ports(data["missing"], "missing", mistakes),
        spare=_ports(data["spare"], "spare", mistakes),
        partitions=_tenants(data, _Members(selecting, stated, data["kind"], mistakes), mistakes),
        switch_racks=_switch_racks(data["switch_racks"], floor, mistakes),
        cables=data["cables"],
        switches=_switches_of_list(data, mistakes),
    )


def sharp_by_default(technology: str, speed: str) -> bool:
    """Return whether switches have aggregation nodes if the file does not state it: Quantum switches have them."""
    return technology == "infiniband" and speed in _QUANTUM


def _sharp(data: Mapping[str, Any], mistakes: Mistakes) -> bool:
    """Return whether switches have aggregation nodes: as stated, else by the speed."""
    infiniband = data["technology"] == "infiniband"
    if data["sharp"] is None:
        return sharp_by_default(data["technology"], data["speed"])
    if data["sharp"] and not infiniband:
        mistakes.add(
            ("fabric", "sharp"), f"SHARP is InfiniBand's, and fabric.technology is {data['technology']}. Remove it."
        )
    return bool(data["sharp"])


def in_fabric(profile: Profile, kind: str) -> bool:
    """Return whether the nodes of a profile have adapters in a fabric of this kind."""
    return any(nic.rail is not None or kind not in BY_UNIT for nic in profile.nics)


def _check_domains(floor: Floor, first: StatedFabric, kind: str | None, mistakes: Mistakes) -> None:
    """Note NVLink domains that Slurm would not get: they are a part of the plan of the first fabric, whose kind is `kind`."""
    profiles = {name: profile.in_fabric(first) for name, profile in floor.profiles.items()}
    stated: dict[Path, list[Profile]] = {
        ("profiles", profile.name, "nvlink_domain"): [profile] for profile in profiles.values() if profile.nvlink_domain
    }
    # Without a fabric, what a rack says is for IMEX alone.
    for node in floor.nodes if kind else ():
        if node.nvlink_domain and not node.profile.nvlink_domain:
            path = (*floor.owner[node.name][:2], "nvlink_domain")
            stated.setdefault(path, []).append(profiles.get(node.profile.name, node.profile))
    check_names(floor, mistakes)
    for path, members in stated.items():
        if kind is None:
            mistakes.add(path, "Slurm gets NVLink domains in its topology, and that needs a `fabric`. Add one.")
        elif outside := [profile.name for profile in members if not in_fabric(profile, kind)]:
            rail = " with a rail" if kind in BY_UNIT else ""
            whose = "the profile" if path[0] == "profiles" else f"profile {outside[0]!r}"
            mistakes.add(
                path, f"no NIC{rail} of {whose} is in the fabric, whose plan has the domains. Name its `nics`."
            )


def _switches(listed: list[str], tier: str, mistakes: Mistakes) -> dict[str, None]:
    names: dict[str, None] = {}
    for number, text in enumerate(listed):
        path: Path = ("fabric", tier, number)
        once(hostlist(text, path, mistakes, SWITCH), names, path, mistakes)
    return names


def _check_leaves(switches: Mapping[str, Mapping[str, None]], of_racks: Mapping[str, str], mistakes: Mistakes) -> None:
    others = {leaf: f"the leaf of rack {rack}" for leaf, rack in of_racks.items()} if switches["leaves"] else {}
    for tier in ("spines", "cores"):
        others |= dict.fromkeys(switches[tier], f"one of fabric.{tier}")
    for name in switches["leaves"]:
        if name in others:
            mistakes.add(("fabric", "leaves"), f"{name} is {others[name]} already. A switch has one name and one tier.")


def _switch_racks(data: Mapping[str, str], floor: Floor, mistakes: Mistakes) -> tuple[tuple[str, str, str], ...]:
    """Return key, switch and rack of all named switches; the plan checks whether they exist."""
    named: dict[str, None] = {}
    found = []
    for key, text in data.items():
        path: Path = ("fabric", "switch_racks", key)
        switches, racks = hostlist(key, path, mistakes, SWITCH), hostlist(text, path, mistakes)
        once(switches, named, path, mistakes)
        unknown = [rack for rack in racks if rack not in floor.racks]
        if unknown and not floor.unread_racks:
            known = list(floor.racks)
            hint = f"A rack of switches alone is a separate entry under `racks`: `{unknown[0]}: {{}}`."
            said = did_you_mean(unknown[0], known) or allowed(known)
            others = f", as {len(unknown) - 1} more" if len(unknown) > 1 else ""
            mistakes.add(path, f"rack {unknown[0]!r} is unknown{others}.{said} {hint}")
        each, rest = divmod(len(switches), len(racks) or 1)
        if switches and racks and (rest or not each):
            text = f"{len(switches)} switches cannot be split evenly over {len(racks)} racks."
            mistakes.add(path, f"{text} Allowed: one rack for all, one for each, or as many as split them evenly.")
        elif racks:
            found += [(key, switch, racks[number // each]) for number, switch in enumerate(switches)]
    return tuple(found)


def _switches_of_list(data: Mapping[str, Any], mistakes: Mistakes) -> tuple[SwitchTraits, ...]:
    """Return the switches that differ from the fabric's values; note keys that need a list of cables, or that contradict one."""
    for key in _COUNTS if data["cables"] else ():
        if ("fabric", key) in mistakes.lines:
            mistakes.add(("fabric", key), f"fabric.cables has all cables: {data['cables']}. Remove this key.")
    named: dict[str, None] = {}
    found = []
    for key, traits in data["switches"].items():
        path: Path = ("fabric", "switches", key)
        switches = hostlist(key, path, mistakes, SWITCH)
        once(switches, named, path, mistakes)
        if traits["group"] and not data["cables"]:
            text = "a planned switch has the group of its rack's `pod`. Remove it, or state fabric.cables."
            mistakes.add((*path, "group"), text)
        given = (traits["ports"], traits["cage_ports"], traits["group"] or "", traits["speed"] or "")
        found += [SwitchTraits(key, name, *given) for name in switches]
    return tuple(found)


def _ports(listed: list[str], key: str, mistakes: Mistakes) -> tuple[tuple[int, str, int], ...]:
    """Return entry, switch and port of all names in a list; the plan reports unknown and duplicate ones."""
    found = []
    for number, text in enumerate(listed):
        for name in hostlist(text, ("fabric", key, number), mistakes):
            switch, _unused, port = name.rpartition(":")
            found.append((number, switch, int(port)))
    return tuple(found)


def _tenants(data: Mapping[str, Any], choosing: _Members, mistakes: Mistakes) -> tuple[Tenant, ...]:
    """Return InfiniBand's partitions; every mistake is noted."""
    stated = data["partitions"]
    if stated and data["technology"] == "ethernet":
        text = "partitions are InfiniBand's, and fabric.technology is ethernet. Remove them: tenants have VLANs there."
        mistakes.add(("fabric", "partitions"), text)
        return ()
    names: dict[str, str] = {}
    pkeys: dict[int, str] = {}
    found = []
    for name, tenant in stated.items():
        path: Path = ("fabric", "partitions", name)
        if (other := names.setdefault(name.lower(), name)) != name:
            mistakes.add(path, f"{name!r} is {other!r} already: upper and lower case are the same here.")
        pkey = tenant["pkey"]
        if pkey and (other := pkeys.setdefault(pkey, name)) != name:
            text = f"0x{pkey:04x} is the P_Key of {other} already, so both would be one partition. Take another."
            mistakes.add((*path, "pkey"), text)
        members = choosing.of(tenant, (*path, "members"))
        found.append(Tenant(name, pkey or 0, members, bool(tenant["ipoib"])))
    return tuple(found)


class _Members:
    """The members of a partition: only what has adapters in the fabric."""

    def __init__(self, selecting: Selecting, stated: StatedFabric, kind: str | None, mistakes: Mistakes) -> None:
        self.selecting, self.mistakes = selecting.noting(mistakes), mistakes
        floor = selecting.floor
        has = {name: in_fabric(one.in_fabric(stated), kind or "") for name, one in floor.profiles.items()}
        self.there = {node.name for node in floor.nodes if has.get(node.profile.name)}
        self.there |= {name for name, host in floor.hosts.items() if host.in_fabric(stated).nics}

    def of(self, tenant: Mapping[str, Any], path: Path) -> dict[str, str]:
        """Return names and what each is: full, limited or both."""
        found: dict[str, str] = {}
        usual = tenant["membership"] or "full"
        for number, entry in enumerate(tenant["members"]):
            if not entry or not entry["nodes"]:
                continue
            where: Path = (*path, number)
            membership = entry["membership"] or usual
            names = self._names(entry["nodes"], where)
            if other := [name for name in names if found.get(name, membership) != membership]:
                text = f"{other[0]}{more(other)} is {found[other[0]]} already, and {membership} here. Name it once."
                self.mistakes.add(where, text)
            found |= dict.fromkeys(names, membership)
        return found

    def _names(self, selector: str, path: Path) -> list[str]:
        told = len(self.mistakes.found)
        names = self.selecting.nodes(selector, path)
        without = [name for name in names if name not in self.there]
        # Of all in a rack or partition those count that are in the fabric; a machine that is named is meant.
        chosen = selector == "all" or ":" in selector
        if without and len(self.mistakes.found) == told and not (chosen and len(without) < len(names)):
            text = f"{without[0]}{more(without)} has no NIC in the fabric: give it `nics`, a node in its profile."
            if not self.selecting.floor.incomplete:
                self.mistakes.add(path, text)
        return [name for name in names if name in self.there]
