# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as a fabric that can be discovered: as a netfile of ibsim, and as the text that `ibnetdiscover` would print of it.

GUIDs that the plan does not have are made from names, so that two runs make the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import (
    CA,
    ROUTER,
    SWITCH,
    Cable,
    DiscoveredNode,
    Discovery,
    guid_of,
)

from ..core.fabric_model import Hca, Plan, Switch, by_switch
from ..core.link_rates import Rate, rate_of
from ..core.node_descriptions import AGGREGATION

# Signs of a NodeDescription.
LONGEST = 64
# ibsim's names: bits of the speeds above QDR, and which of its versions knows them.
_EXTENDED = {"FDR": 1, "EDR": 2, "HDR": 4, "NDR": 8}
_PLAIN = {"SDR": 1, "DDR": 2, "QDR": 4}
_WIDTHS = {"1x": 1, "2x": 16, "4x": 2, "8x": 4, "12x": 8}
_LETTERS = {SWITCH: "S", CA: "H", ROUTER: "R"}
_WORDS = {SWITCH: "Switch", CA: "Ca", ROUTER: "Rt"}


class NetfileError(ValueError):
    """A plan that cannot be written, with one reason a line."""


def generated_guid(name: str, taken: set[str] | None = None) -> str:
    """Return a GUID for a name: locally administered, and with room for the GUIDs of 255 ports behind it.

    >>> generated_guid("leaf1")
    '02d103cfb5e49900'
    """
    salt = 0
    while True:
        text = f"{name}\0{salt}" if salt else name
        guid = f"02{hashlib.sha256(text.encode()).hexdigest()[:12]}00"
        if not taken or guid not in taken:
            return guid
        salt += 1


def with_guids(plan: Plan) -> Plan:
    """Return the plan with a GUID for every switch, HCA and HCA's port; those it has are kept, in 16 hex digits."""
    things: list[Switch | Hca] = [*plan.switches.values(), *plan.hcas.values()]
    taken = {guid_of(thing.guid) for thing in things if thing.guid}
    full = replace(plan, switches={}, hcas={}, links=list(plan.links), used=dict(plan.used))
    for thing in things:
        guid = guid_of(thing.guid) if thing.guid else generated_guid(thing.name, taken)
        taken.add(guid)
        if isinstance(thing, Switch):
            full.add(thing if thing.guid == guid else replace(thing, guid=guid))
        else:
            port = guid_of(thing.port_guid) if thing.port_guid else f"{int(guid, 16) + 1:016x}"
            full.add(
                thing if (thing.guid, thing.port_guid) == (guid, port) else replace(thing, guid=guid, port_guid=port)
            )
    return full


def discovery_of(plan: Plan, plane: str | None = None) -> Discovery:
    """Return what would be discovered if the fabric (or one plane of it) were as planned."""
    full = with_guids(plan)
    found = Discovery()
    by_name: dict[str, DiscoveredNode] = {}
    things: list[Switch | Hca] = [*full.switches.values(), *full.hcas.values()]
    for thing in things:
        if plane is not None and thing.plane != plane:
            continue
        kind, ports = (SWITCH, thing.ports) if isinstance(thing, Switch) else (CA, 1)
        node = DiscoveredNode(thing.guid, kind, ports, thing.name, 0, thing.guid, len(by_name) + 1)
        if isinstance(thing, Hca):
            node.port_guids[1] = thing.port_guid
        by_name[thing.name] = found.nodes[thing.guid] = node
    for link in full.present:
        if link.a in by_name and link.b in by_name:
            connect(by_name[link.a], link.a_port, by_name[link.b], link.b_port, *rate_of(plan, link))
    found.origin = next((node.guid for node in by_name.values() if node.kind == CA), "")
    return found


def connect(one: DiscoveredNode, one_port: int, other: DiscoveredNode, other_port: int, width: str, speed: str) -> None:
    """Put a cable between two ports; their former cable is forgotten at that end only."""
    for near, port, far, far_port in ((one, one_port, other, other_port), (other, other_port, one, one_port)):
        guid = far.port_guids.get(far_port, "")
        near.cables[port] = Cable(far.guid, far_port, width, speed, far.description, far.lid, far.kind, guid)


def ibnetdiscover_text(discovery: Discovery, *, full: bool = False) -> str:
    """Return what `ibnetdiscover` prints (with -f if `full`): switches, then HCAs, then routers."""
    lines = ["#", "# Topology file: generated on Thu Jan  1 00:00:00 1970", "#"]
    if discovery.origin:
        lines.append(f"# Initiated from node {discovery.origin} port {discovery.origin}")
    nodes = [*discovery.nodes.values(), *discovery.twins]
    for kind in (SWITCH, CA, ROUTER):
        for node in nodes:
            if node.kind == kind:
                lines += _node_lines(node, full)
    return "\n".join(lines) + "\n"


def _node_lines(node: DiscoveredNode, full: bool) -> Iterator[str]:
    yield from ("", "vendid=0x2c9", "devid=0xd2f2")
    if node.system:
        yield f"sysimgguid=0x{int(node.system, 16):x}"
    guid = f"{int(node.guid, 16):x}"
    name = f'"{_LETTERS[node.kind]}-{node.guid}"'
    if node.kind == SWITCH:
        yield f"switchguid=0x{guid}({guid})"
        yield f'Switch\t{node.ports} {name}\t\t# "{node.description}" enhanced port 0 lid {node.lid} lmc 0'
    else:
        yield f"{_WORDS[node.kind].lower()}guid=0x{guid}"
        yield f'{_WORDS[node.kind]}\t{node.ports} {name}\t\t# "{node.description}"'
    for port, cable in sorted(node.cables.items()):
        far = f'"{_LETTERS[cable.kind]}-{cable.guid}"[{cable.port}]'
        their = f"({int(cable.port_guid, 16):x}) " if cable.port_guid else ""
        rate = f"{cable.width}{cable.speed}" + (" s=4 w=2 v=4" if full else "")
        seen = f'"{cable.description}" lid {cable.lid} {rate}'
        if node.kind == SWITCH:
            yield f"[{port}]\t{far}{their}\t\t# {seen}"
        else:
            own = int(node.port_guids.get(port, node.guid), 16)
            yield f"[{port}]({own:x}) \t{far}{' ' if their else ''}{their}\t\t# lid {node.lid} lmc 0 {seen}"


def netfile(plan: Plan, *, plane: str | None = None, ndr: bool = False) -> str:
    """Return a netfile for ibsim, of the whole fabric or of one plane; a node's id is `S-GUID` or `H-GUID`, as in ibnetdiscover.

    ibsim 0.10 knows no speed above HDR, which stands for all of them; `ndr` is for 0.12. It gives port n of an HCA its node's GUID + n.
    A port whose cable has another rate than the plan's has its width and speed behind it. A switch with SHARP has its aggregation node
    on one port more than it has for cables, as ibnetdiscover shows it.
    """
    full = with_guids(plan)
    _writable(full)
    lines = [f"# {plan.name}: {len(full.switches)} switches, {len(full.hcas)} HCAs"]
    # What ports support: a narrower or slower port is set down behind its cable.
    width, plain, extended = 1, 1, 0
    for rate in {(plan.width, plan.speed), *(rate_of(plan, link) for link in plan.links)}:
        bits = _bits(rate, ndr)
        width, plain, extended = width | bits[0], max(plain, bits[1]), max(extended, bits[2])
    lines.append(f"width={width}")
    lines += [f"speed={plain * 2 - 1}", f"extspeed={max(0, extended * 2 - 1)}"]
    set_down = _set_down(full, ndr, (plain, extended))
    things: list[Switch | Hca] = [*full.switches.values(), *full.hcas.values()]
    ids = {
        thing.name: f'"{"S" if isinstance(thing, Switch) else "H"}-{thing.guid}"'
        for thing in things
        if plane is None or thing.plane == plane
    }
    ports = by_switch(link for link in full.present if link.a in ids and link.b in ids)
    inside = aggregation_guids(full) if plan.sharp else {}
    for name, own in ids.items():
        switch = full.switches.get(name)
        head = f"Switch\t{switch.ports + (name in inside)}" if switch else "Ca\t1"
        lines += ["", f"{'switchguid' if switch else 'caguid'}=0x{own[3:-1]}", f'{head} {own}\t\t# "{name}"']
        for port, (far, there) in sorted(ports.get(name, {}).items()):
            lines.append(f"[{port}]\t{ids[far]}[{there}]{set_down.get((name, port), '')}")
        if switch and name in inside:
            lines.append(f'[{switch.ports + 1}]\t"H-{inside[name]}"[1]')
    for name, guid in inside.items():
        if name in ids:
            lines += ["", f"caguid=0x{guid}", f'Ca\t1 "H-{guid}"\t\t# "{AGGREGATION}"']
            lines.append(f"[1]\t{ids[name]}[{full.switches[name].ports + 1}]")
    return "\n".join(lines) + "\n"


def _bits(rate: Rate, ndr: bool) -> tuple[int, int, int]:
    """Return width, speed up to QDR and speed above it as ibsim's bits."""
    width, speed = rate
    if (speed == "NDR" and not ndr) or (speed not in _PLAIN and speed not in _EXTENDED):
        speed = "NDR" if ndr else "HDR"
    return _WIDTHS.get(width, 2), _PLAIN.get(speed, 4), _EXTENDED.get(speed, 0)


def _set_down(plan: Plan, ndr: bool, most: tuple[int, int]) -> dict[tuple[str, int], str]:
    """Return the text behind the cable of each port that has not the plan's rate; `most` are the speeds that the file enables."""
    usual = (_bits((plan.width, plan.speed), ndr)[0], *most)
    found: dict[tuple[str, int], str] = {}
    for link in plan.links if any(link.speed or link.width for link in plan.links) else ():
        width, plain, extended = _bits(rate_of(plan, link), ndr)
        if (width, plain, extended) != usual:
            speed = f" e={extended}" if extended else f" s={plain} e=0"
            found.update(dict.fromkeys(link.ends, f" w={width}{speed}"))
    return found


def aggregation_guids(plan: Plan) -> dict[str, str]:
    """Return switch -> GUID of its aggregation node, made from the switch's name: nothing records the real ones."""
    taken = {one.guid for one in plan.switches.values()} | {one.guid for one in plan.hcas.values()}
    found = {}
    for name in plan.switches:
        found[name] = generated_guid(f"{name} {AGGREGATION}", taken)
        taken.add(found[name])
    return found


def _writable(plan: Plan) -> None:
    """Raise NetfileError for names that ibsim would cut short or misread, and for GUIDs that two nodes share."""
    wrong = []
    seen: dict[str, str] = {}
    things: list[Switch | Hca] = [*plan.switches.values(), *plan.hcas.values()]
    for thing in things:
        name = thing.name
        if len(name.encode()) > LONGEST:
            wrong.append(f"{name}: {len(name.encode())} bytes, and a NodeDescription holds {LONGEST}")
        if not name.isascii() or not name.isprintable() or '"' in name:
            wrong.append(f"{name!r}: only printable ASCII without quotes can be a NodeDescription in ibsim")
        if thing.guid in seen:
            wrong.append(f"{name}: has the GUID {thing.guid} of {seen[thing.guid]}")
        seen[thing.guid] = name
    if wrong:
        raise NetfileError("\n".join(wrong))
