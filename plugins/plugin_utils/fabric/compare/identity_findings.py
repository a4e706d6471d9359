# SPDX-License-Identifier: GPL-3.0-or-later
"""Report nodes that were not identified by their name, replaced nodes, and unrecorded GUIDs. Like findings are one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA, SWITCH, guid_of

from ..core.fabric_model import INFINIBAND
from ..core.places import End, place
from .binding import Binding
from .identified_fabric import DEVICE, EXCHANGED, GUID, NAME, ORDER, PLACE, RENUMBERED, REST, Exchange
from .merge import MergedNode

# Above this number, like nodes are reported in one finding.
_MANY = 3
_RECORD = "playbooks/fabric_compare.yml -e fabric_record=true"
_AGAIN = "playbooks/fabric.yml, playbooks/interconnect.yml"
_NAME_IT = "set its NodeDescription (rdma-ndd)"
# A node with its planned name, or the planned name of a node without one.
_Named = tuple[MergedNode, str]


class IdentityFindings:
    """Findings about names and GUIDs. `matched`: host -> how the devices were matched that have other names than in the plan."""

    def __init__(self, binding: Binding, matched: Mapping[str, str]) -> None:
        self.binding, self.plan, self.seen = binding, binding.plan, binding.seen
        self.matched = matched
        self.recorded = self.plan.technology == INFINIBAND
        managed = self.plan.technology == INFINIBAND and self.plan.kind != "dragonfly"
        # root_guid.conf has their GUIDs.
        self.roots = {one.name for plane in self.plan.planes for one in self.plan.roots(plane)} if managed else set()

    def report(self) -> None:
        """Add all findings to the identified fabric."""
        nameless: list[_Named] = []
        replaced: list[_Named] = []
        for node in self.binding.merged.nodes.values():
            name = self.seen.names.get(node.guid, "")
            how = self.seen.how.get(name)
            if node.guid in self.binding.again:
                self._add_again(node, name)
            elif how in (None, EXCHANGED):
                continue
            elif self._is_replaced(node, name):
                replaced.append((node, name))
            elif how in (GUID, PLACE, REST):
                nameless.append((node, name))
        self._replaced(replaced)
        self._nameless(nameless)
        self._other_devices()
        self._exchanged()
        self._misnamed()
        for host, names in self.seen.renumbered.items():
            text = f"a card is absent, and the devices after it have the numbers before theirs; by their cables they are {few(names)}"
            remedy = f"install the absent card, or find out why it is down; until then the GUIDs of these {len(names)} are not recorded"
            where = self.plan.where(names[0]) if len(names) == 1 else self._at(host, names[0])
            self._add("renumbered", WARNING, where, "", text, remedy, *((name, 1) for name in names))
        for guid, host in self.seen.moved.items():
            name = self.binding.on_record[guid]
            remedy = f"check both hosts, then record: {_RECORD}"
            text = f"it names {host} now, in its description {self.binding.merged.nodes[guid].description!r}; it is no longer recorded here"
            self._add("replaced", WARNING, self.plan.where(name), f"the recorded GUID {guid}", text, remedy, (name, 1))
        self._doubtful_switches()

    def _nameless(self, nameless: Sequence[_Named]) -> None:
        switches = [one for one in nameless if one[0].kind == SWITCH]
        adapters = [one for one in nameless if one[0].kind != SWITCH]
        if len(switches) > _MANY:
            names = [name for _node, name in switches]
            text = f"{len(names)} switches have no name of the plan, and were matched by their cables: {few(names)}"
            remedy = "use the node-name map of the plan with ibnetdiscover and OpenSM"
            ends = ((name, 0) for name in names)
            self._add("unnamed", WARNING, self.plan.name, "", text + self._not_recorded(names), remedy, *ends)
        if len(adapters) > _MANY:
            names = [name for _node, name in adapters]
            text = f"{len(names)} HCAs do not name their host, and were matched by GUID or place: {few(names)}"
            remedy = "set their NodeDescriptions (rdma-ndd), then compare again"
            ends = ((name, 1) for name in names)
            rivals = [
                place
                for node, name in adapters
                if self._rival(node, name) and (place := self.binding.place_of(node.guid))
            ]
            text += self._not_recorded([*names, *rivals])
            self._add("unnamed", WARNING, self.plan.name, "", text, remedy, *ends)
        for node, name in (
            *(switches if len(switches) <= _MANY else ()),
            *(adapters if len(adapters) <= _MANY else ()),
        ):
            what, remedy = ("switch", "name it") if node.kind == SWITCH else ("HCA", _NAME_IT)
            how = self.seen.how[name]
            by = f"{'its ' if how in (GUID, PLACE) else ''}{how}"
            text = f"the {what} has the description {node.description!r}; by {by} it is {name}"
            text += self._not_recorded([name]) + self._rival(node, name)
            self._add("unnamed", WARNING, self._where(node, name), "", text, remedy, (name, 1))

    def _not_recorded(self, names: Sequence[str]) -> str:
        """Return the part of a text about GUIDs that are not recorded, with the reason."""
        without = [name for name in names if name in self.seen.unrecorded and self.recorded]
        if not without:
            return ""
        why = self.seen.unrecorded[without[0]]
        if len(names) == 1:
            return f". Its GUID is not recorded: {why}"
        return f". The GUIDs of {len(without)} are not recorded, such as {few(without, 3)}: {why}"

    def _rival(self, node: MergedNode, name: str) -> str:
        """Return the part of a text about the adapter in whose port an unnamed one is, if its GUID is not recorded either."""
        other = self.binding.place_of(node.guid) if self.seen.how[name] == REST else ""
        return (
            f"; nor is that of {other}, in whose port it is" if other != name and other in self.seen.unrecorded else ""
        )

    def _other_devices(self) -> None:
        """Report hosts that name their devices in another way, all in one finding."""
        if not self.matched:
            return
        hosts = list(self.matched)
        learned = sum(how == DEVICE for how in self.matched.values())
        text = f"{len(hosts)} hosts name their HCAs differently from the plan: {few(hosts)}. "
        ways = [f"{learned} were matched as most hosts show by their cables"] if learned else []
        ways += [f"{len(hosts) - learned} by the order of their devices"] if len(hosts) > learned else []
        odd = [name for name, how in self.seen.how.items() if how in (DEVICE, ORDER) and name in self.seen.unrecorded]
        text += " and ".join(ways)
        if odd:
            why = self.seen.unrecorded[odd[0]]
            text += f". The GUIDs of {len(odd)} HCAs are not recorded, such as {few(odd, 3)}: {why}"
        remedy = "name the devices in the plan as the hosts do, or state `fabric_name` of the NICs"
        self._add("unnamed", NOTICE, self.plan.name, "", text, remedy)

    def _add_again(self, node: MergedNode, name: str) -> None:
        same = self.binding.again[node.guid]
        known = "" if name in self.seen.strangers else f"; by its place it is {name}"
        text = f"the node has the description {node.description!r}, which {same} has as well{known}. The GUIDs are not recorded"
        ports = ((same, 1),) if name in self.seen.strangers else ((same, 1), (name, 1))
        self._add("duplicate-name", ERROR, self._where(node, name), "", text, "set a unique name", *ports)

    def _is_replaced(self, node: MergedNode, name: str) -> bool:
        """Return whether another GUID is on record for a name; a renumbered adapter has the one of another device."""
        thing = self.plan.switches.get(name) or self.plan.hcas[name]
        if not thing.guid or guid_of(thing.guid) == node.guid or node.guid in self.binding.merged.duplicate_guids:
            return False
        return self.seen.how[name] != RENUMBERED

    def _replaced(self, replaced: Sequence[_Named]) -> None:
        adapters = [one for one in replaced if one[0].kind == CA]
        if many := len(adapters) > _MANY:
            names = [name for _node, name in adapters]
            examples = few((f"{name} is {node.guid}" for node, name in adapters), 3)
            found = f"other ones: {examples}: the HCAs were replaced, or the record is of another fabric"
            ends = ((name, 1) for name in names)
            expected = f"the recorded GUIDs of {len(names)} HCAs"
            text = found + self._not_recorded(names)
            self._add("replaced", WARNING, self.plan.name, expected, text, self._remedy_replaced(""), *ends)
        for node, name in replaced:
            if many and node.kind == CA:
                continue
            thing = self.plan.switches.get(name) or self.plan.hcas[name]
            owner = self.binding.on_record.get(node.guid)
            of_whom = f", which is recorded for {owner}" if owner else ""
            found = f"{node.guid}{of_whom}: it was replaced"
            if self.seen.how[name] != NAME:
                found += f", or another one has its cable. Its description is {node.description!r}"
            found += self._not_recorded([name])
            severity = ERROR if name in self.roots else WARNING
            expected = f"the recorded GUID {guid_of(thing.guid)}"
            self._add(
                "replaced", severity, self.plan.where(name), expected, found, self._remedy_replaced(name), (name, 1)
            )

    def _remedy_replaced(self, name: str) -> str:
        """Return what to do about a replaced node: the commands, in their order."""
        first = f"{_NAME_IT}, then " if name in self.seen.unrecorded and name in self.plan.hcas else ""
        if name in self.roots:
            routes = "OpenSM's root_guid.conf has the old GUID, and routes around this switch are wrong until then: "
            return f"{routes}record the new GUID ({_RECORD}), plan again and deploy it ({_AGAIN})"
        return f"{first}record the new GUID ({_RECORD}), plan again and deploy it ({_AGAIN}); or reinstall the old one"

    def _exchanged(self) -> None:
        """Report names in each other's place: each ring is one finding, and many rings are one."""
        switches = [one for one in self.seen.exchanges if one.switches]
        if len(switches) > _MANY:
            count = sum(len(one.names) for one in switches)
            examples = few(
                f"{name} has the cables of {at}"
                for one in switches
                for name, at in zip(one.names, one.places, strict=True)
            )
            text = f"the names of {count} switches are in each other's place: {examples}. Their GUIDs are not recorded"
            remedy = "use the node-name map of this plan (playbooks/fabric.yml) with ibnetdiscover, then discover again"
            ends = dict.fromkeys(end for one in switches for end in one.ports)
            self._add("exchanged", ERROR, self.plan.name, "", text, remedy, *ends)
        for one in self.seen.exchanges:
            if not (one.switches and len(switches) > _MANY):
                self._exchange(one)

    def _none_recorded(self) -> str:
        return ". Their GUIDs are not recorded" if self.recorded else ""

    def _exchange(self, one: Exchange) -> None:
        what = "switch" if one.switches else "host"
        pairs = list(zip(one.names, one.places, strict=True))
        ring = set(one.names) == set(one.places)
        text = f"the {what} that is called {pairs[0][0]} has the cables of {pairs[0][1]}"
        if ring and len(pairs) == 2:
            text += ", and the reverse"
        elif len(pairs) > 1:
            text += "".join(f", {name} has the cables of {at}" for name, at in pairs[1:])
        text += f" ({one.fitting} of {one.cables} cables fit){self._none_recorded()}"
        names = "node-name map of ibnetdiscover, or the switches' own names" if one.switches else "hostname and address"
        if one.confirmed == "places":
            remedy = f"the GUIDs on record confirm the cables: correct the names ({names})"
        elif one.confirmed == "names":
            nodes = "switches" if one.switches else "hosts"
            remedy = f"the GUIDs on record confirm the names: exchange the {nodes}, or all their cables"
        else:
            remedy = f"if the names are wrong, correct them ({names}); if they are right, exchange all cables"
        where = self.plan.where(one.names[0]) if one.switches else self._at(one.names[0], one.ports[0][0])
        self._add("exchanged", ERROR, where, "", text, remedy, *one.ports)

    def _misnamed(self) -> None:
        """Report devices with the names of other devices of their host, all in one finding."""
        hosts = self.seen.misnamed
        if not hosts:
            return
        first, pairs = next(iter(hosts.items()))
        names = [name for listed in hosts.values() for _device, name in listed]
        calls = few((f"{name} is called {first} {device}" for device, name in pairs), _MANY)
        text = f"{calls}; {len(hosts)} hosts have such names: {few(hosts)}" if len(hosts) > 1 else calls
        remedy = (
            "the GUIDs on record confirm the cables, so move none: correct the names (order of the devices on the host, or `name` or "
            "`fabric_name` of `nics`); until then nothing is recorded for these"
        )
        where = self.plan.name if len(hosts) > 1 else self._at(first, names[0])
        self._add("exchanged", ERROR, where, "", text, remedy, *((name, 1) for name in names))

    def _doubtful_switches(self) -> None:
        """Report switches with a name that none of their cables has; the cables are other findings."""
        names = [
            name for name in self.seen.unrecorded if self.seen.how.get(name) == NAME and name in self.plan.switches
        ]
        if names:
            why = self.seen.unrecorded[names[0]]
            text = f"the names of {len(names)} switches may be wrong: {few(names)}. Their GUIDs are not recorded: {why}"
            remedy = "compare the node-name map and the names on the switches with the plan"
            self._add("unnamed", WARNING, self.plan.name, "", text, remedy, *((name, 0) for name in names))

    def _at(self, host: str, name: str) -> str:
        rack = self.plan.hcas[name].rack if name in self.plan.hcas else ""
        return f"rack {rack}, {host}" if rack else host

    def _where(self, node: MergedNode, name: str) -> str:
        """Return where a node is: for an HCA, the port of the switch that it is connected to."""
        if node.kind != SWITCH and (cables := self.binding.cables[node.guid]):
            guid, port = next(iter(cables.values()))
            far = self.seen.names.get(guid, "")
            if far in self.plan.switches:
                return place((far, port), self.plan)
        return self.plan.where(name)

    def _add(self, kind: str, severity: str, where: str, expected: str, found: str, remedy: str, *ports: End) -> None:
        self.seen.findings.append(Finding(kind, where, expected, found, remedy, severity, ports=ports))
