# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a fabric that a list of cables states: real names and ports; tiers, rails, groups and planes follow from the cables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TypeVar

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean, few

from ...cluster import Cluster, Fabric, SwitchTraits
from ...cluster.schema.fabric_section import BY_UNIT
from ...cluster.schema.fields import Path, allowed
from ...cluster.schema.late_mistakes import MistakeCollector
from ..core.fabric_model import Hca, Link, Plan, Switch
from ..core.fabric_shape import DRAGONFLY, RAIL_OPTIMISED, THREE_TIER, SwitchCables, counted_cables, rails_of_leaves
from ..core.node_descriptions import natural
from ..core.switch_graph import mesh_groups, tiers_of, with_empty_leaves
from ..core.unnamed_nodes import guid_in_name
from .cable_rows import WrittenCables, read
from .listed_ends import ListedCables, known_hcas, resolve, uncabled

T = TypeVar("T")

# Key of the cluster file -> tier that it states.
_STATED = {"leaves": 1, "spines": 2, "cores": 3}
# Mistakes of a list that are shown; a wrong number of ports makes one of every cable.
_SHOWN = 100


class ListError(ValueError):
    """A list of cables that cannot be used, with one mistake a line."""


def path_of_list(cluster: Cluster, cables: str) -> FilePath:
    """Return the path of a list; a relative one is beside the cluster file."""
    return FilePath(cluster.path).parent / FilePath(cables).expanduser()


def listed_plan(
    cluster: Cluster, fabric: Fabric, wrong: MistakeCollector, written: WrittenCables | None = None
) -> Plan:
    """Return the plan of a list. Mistakes of the cluster file are added to `wrong`; ListError has all mistakes of the list.

    `written` is the list if it is not to be read from the file.
    """
    if written is None:
        written = read(path_of_list(cluster, fabric.cables or ""))
    by_unit = fabric.kind in BY_UNIT
    known = known_hcas(cluster, by_unit)
    listed = resolve(written, fabric, known)
    if written.mistakes:
        lines = written.lines()
        more = [f"{written.path}: {len(lines) - _SHOWN} more mistakes"] if len(lines) > _SHOWN else []
        raise ListError("\n".join([*lines[:_SHOWN], *more]))
    plan = _ListedPlan(cluster, fabric, known, listed).build(wrong)
    plan.uncabled = list(uncabled(known, listed, by_unit))
    return plan


class _ListedPlan:
    def __init__(
        self, cluster: Cluster, fabric: Fabric, known: Mapping[str, Mapping[str, Hca]], listed: ListedCables
    ) -> None:
        self.cluster, self.fabric, self.known, self.listed = cluster, fabric, known, listed
        spare: dict[str, list[int]] = {}
        for _number, switch, port in fabric.spare:
            spare.setdefault(switch, []).append(port)
        self.plan = Plan(
            cluster.fabric_title, fabric.kind, fabric.technology, fabric.speed, "4x", float(fabric.oversubscription),
            sharp=fabric.sharp, spare={name: sorted(set(ports)) for name, ports in spare.items()}, listed=True,
        )  # fmt: skip
        self.nodes = {node.name for node in cluster.nodes}

    def build(self, wrong: MistakeCollector) -> Plan:
        """Return the plan."""
        plan = self.plan
        self._devices()
        cables = counted_cables(plan, planned=True)
        near = {name: set(others) for name, others in cables.near.items()}
        tiers = self._tiers(near, {name: len(hcas) for name, hcas in cables.hcas.items()}, wrong)
        # Stable: switches of a tier are in the order of the list.
        plan.switches = {
            name: replace(plan.switches[name], tier=tiers[name])
            for name in sorted(plan.switches, key=tiers.__getitem__)
        }
        self._places(cables, near, tiers)
        self._planes(cables)
        plan.links = [self._link(link) for link in plan.links]
        self._check_hosts(wrong)
        self._check_spare(wrong)
        if plan.kind == RAIL_OPTIMISED and plan.tiers > 2:
            plan.kind = THREE_TIER
        return plan

    def _devices(self) -> None:
        """Add switches, HCAs in the order of the cluster file, and links whose kinds are not known yet."""
        plan, fabric = self.plan, self.fabric
        traits = {one.name: one for one in fabric.switches}
        for name in self.listed.switches:
            of = traits.get(name, SwitchTraits("", name))
            ports, lanes = of.ports or fabric.switch_ports, of.cage_ports or fabric.cage_ports
            plan.add(Switch(name, ports, 0, group=of.group, lanes=lanes, guid=guid_in_name(name)))
        there = self.listed.hcas
        in_order = [hca for devices in self.known.values() for hca in devices.values() if hca.name in there]
        plan.add(*in_order, *(hca for hca in there.values() if guid_in_name(hca.name)))
        for cable in self.listed.cables:
            one, other = cable.ends
            if one[0] in plan.switches and other[0] in there:
                one, other = other, one
            row = cable.written
            plan.links.append(Link(*one, *other, "host", row.left_out, row.speed, row.width))

    def _tiers(self, near: Mapping[str, set[str]], hosts: Mapping[str, int], wrong: MistakeCollector) -> dict[str, int]:
        """Return the tiers: as the cluster file states them, else as they follow from the cables."""
        found = tiers_of(near, hosts)
        if self.fabric.kind != DRAGONFLY:
            found = with_empty_leaves(found, near)
        stated = {name: tier for key, tier in _STATED.items() for name in getattr(self.fabric, key)}
        unknown: dict[Path, list[str]] = {}
        for key in _STATED:
            for name in getattr(self.fabric, key):
                if name not in near:
                    unknown.setdefault(("fabric", key), []).append(name)
        for one in self.fabric.switches:
            if one.name not in near:
                unknown.setdefault(("fabric", "switches", one.key), []).append(one.name)
        for path, absent in unknown.items():
            more = f", and {len(absent) - 1} more of these" if len(absent) > 1 else ""
            hint = did_you_mean(absent[0], list(near)) or allowed(sorted(near, key=natural))
            wrong.add(path, f"{self.fabric.cables} has no switch {absent[0]!r}{more}.{hint}")
        return {name: stated.get(name, tier) for name, tier in found.items()}

    def _places(self, cables: SwitchCables, near: Mapping[str, set[str]], tiers: Mapping[str, int]) -> None:
        """Set rails, groups and racks of switches, from the lowest tier up."""
        switches, hcas = self.plan.switches, self.plan.hcas
        rails = rails_of_leaves(self.plan, cables) if self.fabric.kind in BY_UNIT else {}
        # Of two tiers, the upper one is above all pods.
        has_pods = max(tiers.values(), default=0) > 2 or self.fabric.kind == DRAGONFLY
        for name, switch in switches.items():
            if below := [other for other in near[name] if tiers[other] < tiers[name]]:
                rail = _common(switches[other].rail for other in below)
                group = _common(switches[other].group for other in below) if has_pods else ""
                switches[name] = replace(switch, rail=rail, group=switch.group or group or "")
                continue
            members = [hcas[hca] for hca in cables.hcas[name] if not guid_in_name(hca)]
            of_nodes = [hca for hca in members if hca.host in self.nodes]
            group = switch.group or _common(hca.group for hca in of_nodes) or ""
            rack = _common(hca.rack for hca in of_nodes or members) or ""
            switches[name] = replace(switch, rail=rails.get(name), group=group, rack=rack)
        if self.fabric.kind == DRAGONFLY and not any(switch.group for switch in switches.values()):
            for number, together in enumerate(mesh_groups(near, tiers), 1):
                for name in together:
                    switches[name] = replace(switches[name], group=f"group{number}")

    def _planes(self, cables: SwitchCables) -> None:
        """Name the parts that no cable joins: by their rails if these differ, else by number."""
        parts = [part for part in cables.parts() if part]
        if self.fabric.kind != "rail-only" and len(parts) < 2:
            return
        rails = rails_of_leaves(self.plan, cables)
        of_part = [_common(rails[name] for name in part if name in rails) for part in parts]
        by_rail = None not in of_part and len(set(of_part)) == len(of_part)
        hcas, switches = self.plan.hcas, self.plan.switches
        for number, (part, rail) in enumerate(zip(parts, of_part, strict=True), 1):
            plane = f"rail{rail}" if by_rail else f"plane{number}"
            for name in part:
                switches[name] = replace(switches[name], plane=plane)
        for link in self.plan.links:
            if link.a in hcas:
                hcas[link.a] = replace(hcas[link.a], plane=switches[link.b].plane)

    def _link(self, link: Link) -> Link:
        """Return a link with its lower end first, and its kind."""
        one, other = self.plan.switches.get(link.a), self.plan.switches.get(link.b)
        if one is None or other is None:
            return link
        if one.tier > other.tier:
            link, one, other = replace(link, a=link.b, a_port=link.b_port, b=link.a, b_port=link.a_port), other, one
        if self.fabric.kind == DRAGONFLY:
            return replace(link, kind="local" if one.group == other.group else "global")
        if one.tier == other.tier:
            return replace(link, kind="local")
        return replace(link, kind="leaf-spine" if one.tier == 1 else "spine-core")

    def _check_hosts(self, wrong: MistakeCollector) -> None:
        """Compare the places of NICs in the cluster file with the list."""
        at = {link.a: (link.b, link.b_port) for link in self.plan.links if link.a in self.plan.hcas}
        for host in self.cluster.hosts.values():
            for number, nic in enumerate(host.nics):
                leaf, port = at.get(f"{host.name} {nic.name}", ("", 0))
                if leaf and nic.leaf and (nic.leaf != leaf or nic.port not in (None, port)):
                    text = f"{self.fabric.cables} has its cable in {leaf}:{port}. Correct the list, or remove `leaf` and `port`."
                    wrong.add(("hosts", host.name, "nics", number), text)

    def _check_spare(self, wrong: MistakeCollector) -> None:
        """Compare the ports that the cluster file keeps free with the list."""
        used = {end for cable in self.listed.cables for end in cable.ends}
        entries: dict[int, list[str]] = {}
        for number, switch, port in self.fabric.spare:
            if (switch, port) in used:
                entries.setdefault(number, []).append(f"{switch}:{port}")
        for number, ports in entries.items():
            text = f"{self.fabric.cables} has a cable in {few(ports)}. Correct the list, or keep another port free."
            wrong.add(("fabric", "spare", number), text)


def _common(values: Iterable[T]) -> T | None:
    """Return the value that all are; None if they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None
