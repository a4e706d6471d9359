# SPDX-License-Identifier: GPL-3.0-or-later
"""Build one discovery from the LLDP neighbours of a RoCE fabric. Only a plan distinguishes switches from hosts.

A host's interface is an HCA `host interface` with one port, as in a plan. For a device that was not queried, the reports of its neighbours
are mirrored; a queried device that does not report a neighbour that reports it is half-seen to `compare`. LLDP has no active speed, so none
is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import (
    CA,
    SWITCH,
    Cable,
    DiscoveredNode,
    Discovery,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    LLDP,
    Answers,
    SavedError,
    ToolOutput,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.lldp import LldpError, neighbours

from ..core.fabric_model import Plan

_BREAKOUT = re.compile(r"swp(\d+)s(\d+)\Z")
_LAST = re.compile(r"(\d+)(?:/(\d+))?\Z")
_FIRST_OF_THREE = re.compile(r"\D*(\d+)/(\d+)/(\d+)\Z")
_OF_SWITCH = re.compile(r"swp\d|Ethernet\d|etp\d|Eth\d+/")


def read_discoveries(outputs: Iterable[ToolOutput], plan: Plan | None = None, step: int = 1) -> dict[str, Discovery]:
    """Return name -> discovery, with all of LLDP as one. Raises SavedError with all unusable texts.

    LLDP needs a plan, which distinguishes switches from hosts. `step` is the difference of consecutive port numbers of SONiC.
    """
    found: dict[str, Discovery] = {}
    answers: Answers = {}
    wrong = []
    for one in outputs:
        try:
            if one.kind == LLDP:
                answers.update(one.answers())
            else:
                found[one.name if one.name not in found else f"{one.name} {len(found)}"] = one.discovery()
        except SavedError as error:
            wrong.append(str(error))
    if answers and plan is None:
        wrong.append(
            "LLDP does not distinguish switches from hosts, so a plan is needed: a section `fabric` in the cluster file"
        )
    if not found and not answers and not wrong:
        wrong.append("nothing was discovered: no text was given")
    if wrong:
        raise SavedError("\n".join(wrong))
    if answers and plan is not None:
        found[LLDP] = discovery_of(answers, plan, step=step)
    return found


def port_number(name: str, lanes: int = 1, step: int = 1) -> int:
    """Return the number of a switch's port by its name, 0 without one; `step` is the difference of SONiC's Ethernet0, 4, 8.

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


def discovery_of(
    answers: Mapping[str, Mapping[str, Any]],
    plan: Plan,
    *,
    step: int = 1,
    device: Callable[[str, str], str] = lambda _host, interface: interface,
) -> Discovery:
    """Return the discovery from answers: name of the queried device -> its answer.

    A switch of the plan is a switch; any other device is a host if it is in the plan, else unknown. `device` gives the plan's
    name of an interface (`mlx5_0` of `ens1f0np0`). The caller leaves out interfaces that lead outside the fabric.
    """
    reader = _NeighbourReader(plan, step, device)
    for name, answer in answers.items():
        try:
            reader.take(short(name), neighbours(answer))
        except LldpError as error:
            reader.found.unread.append((0, f"{name}: {error}"))
    reader.mirror()
    return reader.found


def short(name: str) -> str:
    """Return a device's name without its domain."""
    return name.split(".")[0]


class _NeighbourReader:
    def __init__(self, plan: Plan, step: int, device: Callable[[str, str], str]) -> None:
        self.plan, self.step, self.device = plan, step, device
        self.found = Discovery()
        self.queried: set[str] = set()
        self.hosts = {hca.host for hca in plan.hcas.values()}
        self.planned = {*plan.switches, *plan.hcas}

    def take(self, name: str, seen: Iterable[tuple[str, str, str, str]]) -> None:
        self.queried.add(name)
        if name in self.plan.switches:
            self._node(name, "")
        for interface, far, far_port, mac in seen:
            wrong = self._cable(name, interface, short(far) or mac, far_port)
            if wrong:
                self.found.unread.append((0, f"{name} {interface} to {far or mac} {far_port}: {wrong}"))

    def _cable(self, name: str, interface: str, far: str, far_port: str) -> str:
        """Add a neighbour; return why it cannot be added."""
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
        # An adapter's firmware may send LLDP besides its host, with a MAC as its name.
        kept, left = sorted((known, cable), key=lambda one: one.description not in self.planned)
        node.cables[port] = kept
        return f"the port has two neighbours, {kept.description} was used, not {left.description}; enable only one LLDP agent there"

    def _node(self, name: str, interface: str) -> tuple[DiscoveredNode, int]:
        """Return a device and the number of its port; an interface of a host is a separate device."""
        switch = self.plan.switches.get(name)
        if switch or (name not in self.hosts and _OF_SWITCH.match(interface) and name not in self.queried):
            lanes, ports = (switch.lanes, switch.ports) if switch else (1, 0)
            node = self.found.nodes.setdefault(name, DiscoveredNode(name, SWITCH, ports, name, 0))
            return node, port_number(interface, lanes, self.step)
        description = f"{name} {self.device(name, interface)}"
        return self.found.nodes.setdefault(description, DiscoveredNode(description, CA, 1, description, 0)), 1

    def mirror(self) -> None:
        """Add to devices that were not queried the other side of their neighbours' reports."""
        for node in list(self.found.nodes.values()):
            for port, cable in list(node.cables.items()):
                far = self.found.nodes[cable.guid]
                if self._box(far) not in self.queried and cable.port not in far.cables:
                    far.cables[cable.port] = Cable(node.guid, port, "", "", node.description, 0, node.kind)

    def _box(self, node: DiscoveredNode) -> str:
        return node.description if node.kind == SWITCH else node.description.partition(" ")[0]
