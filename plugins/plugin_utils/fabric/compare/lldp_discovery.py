# SPDX-License-Identifier: GPL-3.0-or-later
"""Build one discovery from the LLDP neighbours of a RoCE fabric.

A host's interface is an HCA `host interface` with one port, as in a plan. For a device that was not queried, the reports of its neighbours
are mirrored; a queried device that does not report a neighbour that reports it is half-seen to `compare`. Without a plan, a device whose
ports have the names of a switch's ports is a switch, and the names give the numbers of its ports.
"""

from __future__ import annotations

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
    LldpSettings,
    SavedError,
    ToolOutput,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.lldp import LldpError, reports

from ..core.fabric_model import Plan
from ..port_names.port_dialects import is_management
from ..port_names.port_evidence import PortEvidence, Report
from ..port_names.unplanned_ports import port_findings, sent_name, unplanned_switches
from .lldp_frames import frame_findings


def read_discoveries(outputs: Iterable[ToolOutput], plan: Plan | None = None, step: int = 1) -> dict[str, Discovery]:
    """Return name -> discovery, with all of LLDP as one. Raises SavedError with all unusable texts.

    `step` is the difference of consecutive port numbers of SONiC if it is stated, else 1: then it is derived.
    """
    found: dict[str, Discovery] = {}
    answers: Answers = {}
    settings = LldpSettings()
    wrong = []
    for one in outputs:
        try:
            if one.kind == LLDP:
                answers.update(one.answers())
                settings = one.settings
            else:
                found[one.name if one.name not in found else f"{one.name} {len(found)}"] = one.discovery()
        except SavedError as error:
            wrong.append(str(error))
    if not found and not answers and not wrong:
        wrong.append("nothing was discovered: no text was given")
    if not wrong and answers:
        found[LLDP] = discovery_of(answers, plan or Plan("", ""), step=step, settings=settings)
        if plan is None and not found[LLDP].switches:
            wrong.append(
                "LLDP names no switch: no neighbour has a port that is named as in the table of docs/fabric.md. Write a section "
                "`fabric` into the cluster file, which names the switches"
            )
    if wrong:
        raise SavedError("\n".join(wrong))
    return found


def discovery_of(
    answers: Mapping[str, Mapping[str, Any]],
    plan: Plan,
    *,
    step: int = 1,
    settings: LldpSettings | None = None,
    device: Callable[[str, str], str] = lambda _host, interface: interface,
) -> Discovery:
    """Return the discovery from answers: name of the queried device -> its answer.

    A switch of the plan is a switch; any other device is a host if it is in the plan, else a switch if its ports are named like one.
    `device` gives the plan's name of an interface (`mlx5_0` of `ens1f0np0`). The caller leaves out interfaces that lead outside the fabric.
    """
    found = Discovery()
    listed: list[Report] = []
    for name, answer in answers.items():
        try:
            listed.extend(Report(short(name), one, short(one.name) or one.mac) for one in reports(answer))
        except LldpError as error:
            found.unread.append((0, f"{name}: {error}"))
    stated = settings or LldpSettings()
    if plan.elsewhere:
        listed = [one for one in listed if _is_of(plan, one, device)]
    evidence = PortEvidence(plan, listed, step, stated.dialect)
    reader = _NeighbourReader(plan, found, evidence, listed, device, step)
    reader.take({short(name) for name in answers})
    reader.mirror()
    found.findings += evidence.findings
    if not plan.switches:
        found.findings += port_findings(reader.unplanned, plan.name or "LLDP")
    found.findings += frame_findings(found, reader.frames, stated.mtu, plan.where)
    found.unclear |= evidence.unclear
    return found


def _is_of(plan: Plan, one: Report, device: Callable[[str, str], str]) -> bool:
    """Return whether a report may be about the plan's fabric: an end of it is in the plan, or no end of it is in another fabric."""
    near, far = one.neighbour.interface, one.neighbour.port_name
    ends = {f"{one.box} {device(one.box, near)}", f"{one.far} {device(one.far, far)}", one.box, one.far}
    outside = any(name.lower() in plan.elsewhere for name in ends)
    return not outside or bool(ends & plan.hcas.keys() or ends & plan.switches.keys())


def short(name: str) -> str:
    """Return a device's name without its domain."""
    return name.split(".")[0]


class _NeighbourReader:
    """Reader of all reports. `frames` has the largest frame of a port, by the node's GUID and the port."""

    def __init__(
        self,
        plan: Plan,
        found: Discovery,
        evidence: PortEvidence,
        listed: list[Report],
        device: Callable[[str, str], str],
        step: int,
    ) -> None:
        self.plan, self.found, self.evidence, self.listed, self.device = plan, found, evidence, listed, device
        self.queried: set[str] = set()
        self.hosts = {hca.host for hca in plan.hcas.values()}
        self.planned = {*plan.switches, *plan.hcas}
        self.frames: dict[tuple[str, int], int] = {}
        self.unplanned = unplanned_switches(listed, {*self.hosts, *plan.switches}, step)

    def take(self, queried: set[str]) -> None:
        self.queried = queried
        for name in queried & self.plan.switches.keys() - self.evidence.unclear:
            self._switch(name)
        for one in self.listed:
            if {one.box, one.far} & self.evidence.unclear or self._is_outside(one):
                continue
            wrong = self._cable(one)
            if wrong:
                far = one.neighbour.name or one.neighbour.mac
                line = f"{one.box} {one.neighbour.interface} to {far} {one.neighbour.port_name}: {wrong}"
                self.found.unread.append((0, line))

    def _is_outside(self, one: Report) -> bool:
        """Return whether a report is about a switch's port for people."""
        near, far = one.neighbour.interface, one.neighbour.port_name
        return (self._is_switch(one.box) and is_management(near)) or (self._is_switch(one.far) and is_management(far))

    def _is_switch(self, name: str) -> bool:
        return name in self.plan.switches or name in self.unplanned

    def _cable(self, one: Report) -> str:
        """Add a neighbour; return why it cannot be added."""
        if not one.far:
            return "no neighbour is named"
        node, port = self._near(one)
        other, other_port = self._far(one)
        if not port or not other_port:
            return "no number in a port's name"
        if one.neighbour.frame:
            self.frames[other.guid, other_port] = one.neighbour.frame
        speed = f"{one.neighbour.gbits:g}G" if one.neighbour.gbits else ""
        cable = Cable(other.guid, other_port, "", speed, other.description, 0, other.kind)
        known = node.cables.setdefault(port, cable)
        if (known.guid, known.port) == (cable.guid, cable.port):
            return ""
        # An adapter's firmware may send LLDP besides its host, with a MAC as its name.
        kept, left = sorted((known, cable), key=lambda each: each.description not in self.planned)
        node.cables[port] = kept
        return f"the port has two neighbours, {kept.description} was used, not {left.description}; enable only one LLDP agent there"

    def _near(self, one: Report) -> tuple[DiscoveredNode, int]:
        name, interface = one.box, one.neighbour.interface
        if name in self.unplanned:
            return self._end(name, interface, self.unplanned[name].of_own(interface))
        return self._end(name, interface, self.evidence.of_own(name, interface) if name in self.plan.switches else 0)

    def _far(self, one: Report) -> tuple[DiscoveredNode, int]:
        if one.far in self.plan.switches:
            sent = self.evidence.sent_name(one.far, one.neighbour)
            return self._end(one.far, sent, self.evidence.of_sent(one.far, one.neighbour))
        if there := self.unplanned.get(one.far):
            return self._end(one.far, sent_name(one, there.by_description), there.of_sent(one))
        return self._end(one.far, one.neighbour.port_name, 0)

    def _end(self, name: str, interface: str, number: int) -> tuple[DiscoveredNode, int]:
        """Return a device and the number of its port; an interface of a host is a separate device."""
        if self._is_switch(name):
            node = self._switch(name)
            if number:
                node.port_names[number] = interface
            return node, number
        description = f"{name} {self.device(name, interface)}"
        return self.found.nodes.setdefault(description, DiscoveredNode(description, CA, 1, description, 0)), 1

    def _switch(self, name: str) -> DiscoveredNode:
        planned = self.plan.switches.get(name)
        there = self.unplanned.get(name)
        ports, lanes = (planned.ports, 0) if planned else (there.ports, there.lanes) if there else (0, 0)
        return self.found.nodes.setdefault(name, DiscoveredNode(name, SWITCH, ports, name, 0, cage_ports=lanes))

    def mirror(self) -> None:
        """Add to devices that were not queried the other side of their neighbours' reports."""
        for node in list(self.found.nodes.values()):
            for port, cable in list(node.cables.items()):
                far = self.found.nodes[cable.guid]
                if self._box(far) not in self.queried and cable.port not in far.cables:
                    far.cables[cable.port] = Cable(node.guid, port, "", cable.speed, node.description, 0, node.kind)

    def _box(self, node: DiscoveredNode) -> str:
        return node.description if node.kind == SWITCH else node.description.partition(" ")[0]
