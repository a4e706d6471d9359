# SPDX-License-Identifier: GPL-3.0-or-later
"""Read LLDP's neighbours (`lldpctl -f json` or `-f json0`) of switches and hosts as one discovery, for RoCE.

A host's interface is an HCA `host interface` with one port, as in a plan. A box that was not asked is taken to see what others see of it;
one that was asked, and does not see a neighbour that sees it, is told of as half-seen by `compare`. LLDP tells no active speed, so none
is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import (
    CA,
    SWITCH,
    Cable,
    Discovery,
    Node,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan

# (name of the box, name of the port)
Port = tuple[str, str]
_BREAKOUT = re.compile(r"swp(\d+)s(\d+)\Z")
_LAST = re.compile(r"(\d+)(?:/(\d+))?\Z")
_FIRST_OF_THREE = re.compile(r"\D*(\d+)/(\d+)/(\d+)\Z")
_OF_SWITCH = re.compile(r"swp\d|Ethernet\d|etp\d|Eth\d+/")
_MAC = re.compile(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\Z")


class LldpError(ValueError):
    """A text that is no answer of lldpctl."""


def port_number(name: str, lanes: int = 1, step: int = 1) -> int:
    """Return the number of a switch's port by its name, 0 if it has none; `step` is by how much SONiC's Ethernet0, 4, 8 grow.

    >>> port_number("swp7"), port_number("swp4s1", lanes=2), port_number("Ethernet1/4/2", lanes=2), port_number("Ethernet12", step=4)
    (7, 8, 8, 4)
    """
    if match := _BREAKOUT.match(name):
        return (int(match[1]) - 1) * lanes + int(match[2]) + 1
    if match := _FIRST_OF_THREE.match(name):
        return (int(match[2]) - 1) * lanes + int(match[3])
    if not (match := _LAST.search(name)):
        return 0
    if match[2]:
        # Module and port (Ethernet1/7), or port and lane (etp4/2).
        single = lanes == 1 or int(match[1]) == 1
        return int(match[2]) if single else (int(match[1]) - 1) * lanes + int(match[2])
    number = int(match[1])
    return number // step + 1 if step > 1 and name.startswith("Ethernet") else number


def neighbours(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield own interface, and the neighbour's name, port and MAC; LldpError for what is no answer of lldpctl.

    A neighbour without a name is `""`; a port that is identified by its MAC only has that as its name. An interface of which nothing
    can be read has a neighbour without anything.
    """
    lldp = answer.get("lldp")
    # json0 makes a list of everything; json makes a map of what there is one of.
    for part in lldp if isinstance(lldp, list) else [lldp]:
        if not isinstance(part, Mapping):
            raise LldpError("there is no `lldp` in it: give the output of `lldpctl -f json`")
        for interface, told in _interfaces(part.get("interface", [])):
            seen = False
            for chassis, name in _chassis(told.get("chassis", {})):
                for port in _listed(told.get("port", {})):
                    seen = True
                    yield interface, name, _port_name(port), str(_first(chassis.get("id")).get("value", ""))
            if not seen:
                yield interface, "", "", ""


def _port_name(port: Mapping[str, Any]) -> str:
    name, description = (str(_first(port.get(key)).get("value", "")) for key in ("id", "descr"))
    by_mac = _first(port.get("id")).get("type") == "mac" or bool(_MAC.match(name))
    return description if by_mac and description and not _MAC.match(description) else name


def _interfaces(found: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for one in found if isinstance(found, list) else [found]:
        if not isinstance(one, Mapping):
            raise LldpError(f"`interface` holds {one!r}, which is no interface")
        if isinstance(one.get("name"), str):
            yield one["name"], one
        else:
            for name, told in one.items():
                for each in _listed(told) or [{}]:
                    yield str(name), each


def _chassis(found: object) -> Iterator[tuple[Mapping[str, Any], str]]:
    for one in _listed(found):
        if "id" in one:
            yield one, str(_first(one.get("name")).get("value", ""))
        else:
            for name, told in one.items():
                for each in _listed(told):
                    yield each, str(name)


def _listed(found: object) -> list[Mapping[str, Any]]:
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, Mapping)]


def _first(found: object) -> Mapping[str, Any]:
    """Return {"value": ..}, which is what json0 wraps in a list, and json leaves bare."""
    one = found[0] if isinstance(found, list) and found else found
    if isinstance(one, Mapping):
        return one
    return {} if one is None or one == [] else {"value": one}


def discovery_of(
    answers: Mapping[str, Mapping[str, Any]],
    plan: Plan,
    *,
    step: int = 1,
    device: Callable[[str, str], str] = lambda _host, interface: interface,
) -> Discovery:
    """Return what boxes see of each other: name of the box that was asked -> its answer.

    What the plan has as a switch is one; all else is a host, if the plan has it, and a stranger if not. `device` gives the plan's
    name of an interface (`mlx5_0` of `ens1f0np0`). Interfaces that go out of the fabric are to be left out by the caller.
    """
    reader = _Reader(plan, step, device)
    for name, answer in answers.items():
        try:
            reader.take(short(name), neighbours(answer))
        except LldpError as error:
            reader.found.unread.append((0, f"{name}: {error}"))
    reader.mirror()
    return reader.found


def short(name: str) -> str:
    """Return a box's name without its domain."""
    return name.split(".")[0]


class _Reader:
    def __init__(self, plan: Plan, step: int, device: Callable[[str, str], str]) -> None:
        self.plan, self.step, self.device = plan, step, device
        self.found = Discovery()
        self.asked: set[str] = set()
        self.hosts = {hca.host for hca in plan.hcas.values()}
        self.planned = {*plan.switches, *plan.hcas}

    def take(self, name: str, seen: Iterable[tuple[str, str, str, str]]) -> None:
        self.asked.add(name)
        if name in self.plan.switches:
            self._node(name, "")
        for interface, far, far_port, mac in seen:
            wrong = self._cable(name, interface, short(far) or mac, far_port)
            if wrong:
                self.found.unread.append((0, f"{name} {interface} to {far or mac} {far_port}: {wrong}"))

    def _cable(self, name: str, interface: str, far: str, far_port: str) -> str:
        """Take a neighbour; return why it cannot be taken."""
        if not far:
            return "no neighbour is named"
        node, port = self._node(name, interface)
        other, other_port = self._node(far, far_port)
        if not port or not other_port:
            return "no number in a port's name"
        cable = Cable(other.guid, other_port, "", "", other.description, 0, other.kind)
        known = node.cables.setdefault(port, cable)
        if known == cable:
            return ""
        # An adapter's firmware may speak beside its host, with a MAC for a name.
        kept, left = sorted((known, cable), key=lambda one: one.description not in self.planned)
        node.cables[port] = kept
        return f"the port has two neighbours, and {kept.description} was taken, not {left.description}; let one agent only speak there"

    def _node(self, name: str, interface: str) -> tuple[Node, int]:
        """Return a box and the number of its port; an interface of a host is a box of its own."""
        switch = self.plan.switches.get(name)
        if switch or (name not in self.hosts and _OF_SWITCH.match(interface) and name not in self.asked):
            lanes, ports = (switch.lanes, switch.ports) if switch else (1, 0)
            node = self.found.nodes.setdefault(name, Node(name, SWITCH, ports, name, 0))
            return node, port_number(interface, lanes, self.step)
        description = f"{name} {self.device(name, interface)}"
        return self.found.nodes.setdefault(description, Node(description, CA, 1, description, 0)), 1

    def mirror(self) -> None:
        """Give boxes that were not asked the other side of what is seen of them."""
        for node in list(self.found.nodes.values()):
            for port, cable in list(node.cables.items()):
                far = self.found.nodes[cable.guid]
                if self._box(far) not in self.asked and cable.port not in far.cables:
                    far.cables[cable.port] = Cable(node.guid, port, "", "", node.description, 0, node.kind)

    def _box(self, node: Node) -> str:
        return node.description if node.kind == SWITCH else node.description.partition(" ")[0]
