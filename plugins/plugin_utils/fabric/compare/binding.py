# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the names that discovered nodes have so far, and answer what their cables say about the others."""

from __future__ import annotations

from functools import cached_property

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import SWITCH, guid_of

from ..core.fabric_model import Hca, Plan, Switch, by_switch
from ..core.node_descriptions import is_unnamed, plain_name, switch_names
from ..core.places import End
from .identified_fabric import IdentifiedFabric
from .merge import MergedDiscovery, MergedNode, Port


class Binding:
    """Names of the plan for nodes of the subnet, while they are found."""

    def __init__(self, plan: Plan, merged: MergedDiscovery) -> None:
        self.plan, self.merged = plan, merged
        self.seen = IdentifiedFabric(merged, findings=list(merged.findings))
        things: list[Switch | Hca] = [*plan.switches.values(), *plan.hcas.values()]
        self.on_record = {guid_of(thing.guid): thing.name for thing in things if thing.guid}
        # Name -> GUID of its node.
        self.taken: dict[str, str] = {}
        # Nodes that share their name with another one, so the name is not trusted.
        self.again: dict[str, str] = {}
        # The node that has such a name now.
        self.contested: set[str] = set()
        # Whether some NICs have another name in the fabric than on the host.
        self.labelled = any(hca.label for hca in plan.hcas.values())

    # Only nodes without a match by name are matched by their cables.
    @cached_property
    def planned(self) -> dict[str, dict[int, End]]:
        """Return name -> port -> the other end, as planned."""
        return by_switch(self.plan.present)

    @cached_property
    def cables(self) -> dict[str, dict[int, Port]]:
        """Return GUID -> port -> the other end, as discovered."""
        found: dict[str, dict[int, Port]] = {guid: {} for guid in self.merged.nodes}
        for (guid, port), far in self.merged.cables.items():
            found[guid][port] = far
        return found

    @cached_property
    def adapters(self) -> dict[str, list[str]]:
        """Return host in lower case -> names of its adapters."""
        found: dict[str, list[str]] = {}
        for name, hca in self.plan.hcas.items():
            found.setdefault(hca.host.lower(), []).append(name)
        return found

    @cached_property
    def labels(self) -> dict[str, str]:
        """Return what an adapter is called in the subnet -> its name; hosts in lower case. A name that two share is left out."""
        found: dict[str, str] = {}
        for name, hca in self.plan.hcas.items():
            label = f"{hca.host.lower()} {hca.label or hca.device}"
            found[label] = "" if label in found else name
        return found

    @cached_property
    def switches(self) -> dict[str, str]:
        """Return a switch's name in lower case -> its name. A name that two share is left out."""
        found: dict[str, str] = {}
        for name in self.plan.switches:
            found[name.lower()] = "" if name.lower() in found else name
        return found

    def called(self, node: MergedNode) -> str:
        """Return the planned name in a node's description, "" without one. Hosts and switches are compared without case."""
        if node.kind == SWITCH:
            names = switch_names(node.description)
            exact = next((name for name in names if name in self.plan.switches), "")
            return exact or next((self.switches[name.lower()] for name in names if name.lower() in self.switches), "")
        name = plain_name(node.description)
        if name in self.plan.hcas and not self.labelled:
            return name
        host, blank, device = name.partition(" ")
        return self.labels.get(f"{host.lower()}{blank}{device}", "")

    def host_of(self, node: MergedNode) -> str:
        """Return the host, in lower case, that an adapter names; "" if it names none, or if another one has the same name."""
        if is_unnamed(node.description) or node.guid in self.again:
            return ""
        return plain_name(node.description).partition(" ")[0].lower()

    def bind(self, node: MergedNode, name: str, how: str) -> None:
        """Name a node, which may have had another name until now."""
        if node.guid in self.seen.names:
            self.release(node.guid)
        self.seen.names[node.guid], self.seen.how[name] = name, how
        self.taken[name] = node.guid

    def release(self, guid: str) -> None:
        """Take its name away from a node."""
        old = self.seen.names.pop(guid, "")
        if old and self.taken.get(old) == guid:
            del self.taken[old], self.seen.how[old]

    def rename(self, names: dict[str, str], how: str) -> None:
        """Name nodes again, all at once: old name -> new name."""
        nodes = {old: self.merged.nodes[self.taken[old]] for old in names}
        for node in nodes.values():
            self.release(node.guid)
        for old, node in nodes.items():
            self.bind(node, names[old], how)

    def fits(self, node: MergedNode, name: str) -> int:
        """Return how many cables of a node match the planned ones of `name`, as far as the other ends are known."""
        planned = self.planned.get(name, {})
        far = ((port, (self.seen.names.get(guid, ""), far)) for port, (guid, far) in self.cables[node.guid].items())
        return sum(planned.get(port) == end for port, end in far)

    def place_of(self, guid: str) -> str:
        """Return the planned name at the port of a switch that an adapter is connected to; "" if that is unknown."""
        for far_guid, far_port in self.cables[guid].values():
            far = self.seen.names.get(far_guid, "")
            name = self.planned.get(far, {}).get(far_port, ("", 0))[0]
            if name in self.plan.hcas:
                return name
        return ""

    def leaf_of(self, guid: str) -> str:
        """Return the switch that an adapter is connected to; "" if it has no name of the plan."""
        found = (self.seen.names.get(far, "") for far, _port in self.cables[guid].values())
        return next((name for name in found if name in self.plan.switches), "")
