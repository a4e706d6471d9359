# SPDX-License-Identifier: GPL-3.0-or-later
"""Match the nodes of the subnet with the plan's: by name, by GUID, by the devices of their host, else by place.

A planned name takes precedence over a GUID, since a GUID moves with an adapter to another host. A node without a usable name is matched by
the planned peers of its cables, so a plan without GUIDs fits a fabric in which a tier, or all switches, have no names. Such a match is for
the comparison alone: `unrecorded` says which GUIDs are not recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA, SWITCH, Discovery

from ..core.fabric_model import Plan
from ..core.node_descriptions import is_aggregation, is_unnamed, plain_name, switch_names
from .binding import Binding
from .device_names import DeviceMatcher, match_recorded, match_renumbered
from .exchanged import MisplacedCables, name_exchanged_hosts, name_exchanged_switches
from .identified_fabric import GUID, NAME, PLACE, REST, IdentifiedFabric
from .identity_findings import IdentityFindings
from .merge import MergedNode, merge
from .unrecorded import find_unrecorded

__all__ = ["GUID", "NAME", "PLACE", "REST", "IdentifiedFabric", "identify_nodes", "with_learned_guids"]


def identify_nodes(plan: Plan, discoveries: Mapping[str, Discovery]) -> IdentifiedFabric:
    """Return the discovered fabric with the plan's names."""
    binder = _Binder(Binding(plan, merge(discoveries)))
    binder.bind()
    return binder.seen


def fabric_of(plan: Plan, description: str) -> str:
    """Return the other fabric of the cluster that has a node with this description; "" for none."""
    if not plan.elsewhere:
        return ""
    names = (plain_name(description), *switch_names(description))
    return next((plan.elsewhere[name.lower()] for name in names if name.lower() in plan.elsewhere), "")


def with_learned_guids(plan: Plan, seen: IdentifiedFabric) -> Plan:
    """Return the plan with the discovered GUIDs, so that a later comparison notices a replaced adapter; without unrecorded ones."""
    full = replace(plan, switches=dict(plan.switches), hcas=dict(plan.hcas))
    for name, guid in seen.guids.items():
        if name in seen.unrecorded:
            continue
        if name in full.switches:
            full.switches[name] = replace(full.switches[name], guid=guid)
        elif name in full.hcas:
            port = seen.port_guids.get(name) or full.hcas[name].port_guid
            full.hcas[name] = replace(full.hcas[name], guid=guid, port_guid=port)
    return full


class _Binder:
    def __init__(self, binding: Binding) -> None:
        self.binding, self.plan, self.seen = binding, binding.plan, binding.seen
        self.devices = DeviceMatcher(binding)

    def bind(self) -> None:
        nodes = list(self.binding.merged.nodes.values())
        self.seen.ignored = {node.guid for node in nodes if node.kind == CA and is_aggregation(node.description)}
        # The name of a node of another fabric is no slip of a name in this one.
        strange = {node.guid for node in nodes if self._is_of_another_fabric(node)}
        every = [node for node in nodes if node.guid not in self.seen.ignored]
        nodes = [node for node in every if node.guid not in strange]
        self._by_name(nodes)
        misplaced = MisplacedCables(self.binding)
        if not misplaced.none:
            name_exchanged_switches(self.binding, misplaced)
            if self.seen.exchanges:
                misplaced = MisplacedCables(self.binding)
            match_renumbered(self.binding, misplaced.adapters)
            if misplaced.adapters and self.binding.on_record:
                match_recorded(self.binding, nodes)
        if len(self.seen.names) < len(nodes):
            self._without_name(nodes)
            misplaced = MisplacedCables(self.binding)
        elif self.seen.renumbered or self.seen.misnamed:
            misplaced = MisplacedCables(self.binding)
        if misplaced.adapters:
            name_exchanged_hosts(self.binding, misplaced)
        find_unrecorded(self.binding, misplaced)
        for node in self._open(every):
            name = f"{plain_name(node.description) or 'unnamed'} [{node.guid}]"
            self.seen.names[node.guid] = name
            self.seen.strangers[name] = node.kind
        IdentityFindings(self.binding, self.devices.matched).report()
        self.seen.translate(self.plan)

    def _is_of_another_fabric(self, node: MergedNode) -> bool:
        """Return whether a node has a name of another fabric. A card on record here is in this one: hosts may renumber their cards."""
        known = node.kind == CA and node.guid in self.binding.on_record
        return not known and bool(fabric_of(self.plan, node.description))

    def _open(self, nodes: Iterable[MergedNode]) -> list[MergedNode]:
        return [node for node in nodes if node.guid not in self.seen.names]

    def _without_name(self, nodes: Iterable[MergedNode]) -> None:
        """Match nodes without a planned name: the nodes that name their host before nodes that do not."""
        left = self._open(nodes)
        self._by_guid(node for node in left if node.kind == SWITCH)
        self._by_place(node for node in self._open(left) if node.kind == SWITCH)
        self.devices.match(self._open(left))
        self._by_guid(self._open(left))
        # Adapters that were matched now may show the place of a switch.
        self._by_place(self._open(left))
        self.devices.match_rest(self._open(left))
        self._by_place(self._open(left))
        self._by_circle(self._open(left))
        self._by_rest(self._open(left))

    def _by_name(self, nodes: Iterable[MergedNode]) -> None:
        wanted: dict[str, list[MergedNode]] = {}
        for node in nodes:
            if name := self.binding.called(node):
                wanted.setdefault(name, []).append(node)
        contested = {name: rivals for name, rivals in wanted.items() if len(rivals) > 1}
        for name, rivals in wanted.items():
            if name not in contested:
                self.binding.bind(rivals[0], name, NAME)
        on_record = self.binding.on_record
        for name, rivals in contested.items():
            best = max(rivals, key=lambda node: (self.binding.fits(node, name), on_record.get(node.guid) == name))
            self.binding.bind(best, name, NAME)
            self.binding.contested.add(best.guid)
            self.binding.again.update((node.guid, name) for node in rivals if node is not best)

    def _by_guid(self, nodes: Iterable[MergedNode]) -> None:
        for node in nodes:
            name = self.binding.on_record.get(node.guid, "")
            if not name or (node.kind == SWITCH) != (name in self.plan.switches):
                continue
            host = self.binding.host_of(node) if node.kind == CA else ""
            if host in self.binding.adapters and host != self.plan.hcas[name].host.lower():
                self.seen.moved[node.guid] = self.plan.hcas[self.binding.adapters[host][0]].host
            elif name not in self.binding.taken:
                self.binding.bind(node, name, GUID)

    def _by_place(self, nodes: Iterable[MergedNode]) -> None:
        """Match nodes by the planned peers of known nodes' cables, until no new match is found."""
        left = list(nodes)
        # Names of these hosts are for nodes that name them.
        claimed = set(self.devices.claimed(left)) if left else set()
        while left:
            found: dict[str, list[MergedNode]] = {}
            for node in left:
                if name := self._place_of(node, claimed):
                    found.setdefault(name, []).append(node)
            new = {rivals[0].guid: name for name, rivals in found.items() if len(rivals) == 1}
            for node in left:
                if node.guid in new:
                    self.binding.bind(node, new[node.guid], PLACE)
            left = [node for node in left if node.guid not in new] if new else []

    def _place_of(self, node: MergedNode, claimed: set[str]) -> str:
        if node.kind != SWITCH:
            name = self.binding.place_of(node.guid) if self._names_nothing(node) else ""
            return name if name and name not in self.binding.taken and self._host(name) not in claimed else ""
        votes: Counter[str] = Counter()
        known = 0
        for port, (guid, far_port) in self.binding.cables[node.guid].items():
            far = self.seen.names.get(guid)
            if far is None:
                continue
            known += 1
            name, planned_port = self.binding.planned.get(far, {}).get(far_port, ("", 0))
            if name in self.plan.switches and name not in self.binding.taken:
                # The port distinguishes two switches that both have cables to the same switches.
                votes[name] += 2 if planned_port == port else 1
        best = votes.most_common(2)
        if not best or best[0][1] < known or (len(best) > 1 and best[1][1] == best[0][1]):
            return ""
        return best[0][0]

    def _host(self, name: str) -> str:
        return self.plan.hcas[name].host.lower()

    def _names_nothing(self, node: MergedNode) -> bool:
        """Return whether an adapter names no host, or has the name of another adapter."""
        return node.kind == CA and (is_unnamed(node.description) or node.guid in self.binding.again)

    def _by_circle(self, nodes: Iterable[MergedNode]) -> None:
        """Match an adapter in the port of another one, which is in the port of the next one, up to a port without its adapter.

        What remains when all named adapters are accounted for is a swap, or a rotation.
        """
        taken = self.binding.taken
        nameless = [node for node in nodes if self._names_nothing(node)]
        claimed = set(self.devices.claimed(nodes)) if nameless else set()
        for node in nameless:
            name, steps = self.binding.place_of(node.guid), 0
            while name in taken and steps <= len(self.plan.hcas):
                name, steps = self.binding.place_of(taken[name]), steps + 1
            if name and name not in taken and self._host(name) not in claimed:
                self.binding.bind(node, name, REST)

    def _by_rest(self, nodes: Iterable[MergedNode]) -> None:
        """Match the only adapter without a name of a leaf, then of the fabric, with the only name that is left there."""
        nameless = [node for node in nodes if self._names_nothing(node)]
        if not nameless:
            return
        leaves: dict[str, list[MergedNode]] = {}
        for node in nameless:
            leaves.setdefault(self.binding.leaf_of(node.guid), []).append(node)
        claimed = set(self.devices.claimed(nodes))
        free = [name for name in self.plan.hcas if name not in self.binding.taken and self._host(name) not in claimed]
        at: dict[str, list[str]] = {}
        for name in free:
            at.setdefault(self.binding.planned.get(name, {}).get(1, ("", 0))[0], []).append(name)
        for leaf, there in leaves.items():
            if leaf and len(there) == len(at.get(leaf, ())) == 1:
                self.binding.bind(there[0], at[leaf][0], REST)
        left = self._open(nameless)
        free = [name for name in free if name not in self.binding.taken]
        if len(left) == len(free) == 1:
            self.binding.bind(left[0], free[0], REST)
