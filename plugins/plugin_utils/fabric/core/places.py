# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe the findings of a fabric: their kinds and order, and places as a technician needs them."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding

from .fabric_model import Plan
from .node_descriptions import natural

End = tuple[str, int]

_ORDER = {ERROR: 0, WARNING: 1, NOTICE: 2}

# Values of `Finding.kind` in a comparison of a plan with a discovery, and their meanings.
KINDS = {
    "missing": "a planned cable is missing, or dead",
    "extra": "a cable is not in the plan",
    "swapped": "two cables are in each other's place",
    "rotated": "three or more cables are in each other's places, in a circle",
    "shifted": "cables are each in the next one's place, and the last in a spare port",
    "wrong-port": "the cable goes to the right switch and into a wrong port of it",
    "miswired": "the cable goes to another port of the plan",
    "unknown": "a connected node is not in the plan",
    "half-seen": "only one end reports the cable",
    "slow": "the cable runs below its planned speed or width",
    "mtu": "ports take smaller frames than the other end, or than the site's RoCE needs",
    "duplicate-guid": "two nodes have one GUID",
    "duplicate-name": "two nodes have one name",
    "replaced": "the node has another GUID than the recorded one",
    "unnamed": "the node has no usable name, and was matched in another way",
    "exchanged": "two or more switches, or hosts, have each other's names, or all of each other's cables; or a host calls its devices by "
    "other names of the plan, and the GUIDs on record confirm the cables",
    "renumbered": "a card of a host is absent, and the devices after it have other numbers than planned",
    "isolated": "a switch or a whole host is not reached, with everything behind it",
    "joined": "a cable joins planes, or fabrics, that must be separate",
    "partial": "a part of the fabric was not discovered, so it was not compared",
    "unclear": "the names of a switch's ports give no numbers, so its cables were not compared",
    "unread": "lines of the discovery, or rates of cables, could not be parsed",
}

# Findings that are listed after all misplaced cables.
_LAST = ("slow", "mtu", "unread")


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by severity, speed after cables, and places in natural order: port 2 before port 10."""
    return sorted(
        findings,
        key=lambda one: (
            _ORDER[one.severity],
            one.kind in _LAST,
            natural(one.where),
            one.kind,
            natural(one.difference),
        ),
    )


def worst(findings: Iterable[Finding]) -> str:
    """Return the highest severity among findings; "" without findings."""
    return min((one.severity for one in findings), key=lambda level: _ORDER[level], default="")


def describe(end: End, plan: Plan) -> str:
    """Return a port as text: `leaf-03 port 17`, `gpu012 mlx5_4`."""
    name, port = end
    if switch := plan.switches.get(name):
        cage = f" (cage {switch.cage(port)})" if switch.lanes > 1 else ""
        return f"{name} port {port}{cage}"
    return name if name in plan.hcas and port == 1 else f"{name} port {port}"


def place(end: End, plan: Plan) -> str:
    """Return the place of a port: `rack b04, leaf-03 port 17`."""
    thing = plan.switches.get(end[0]) or plan.hcas.get(end[0])
    return f"rack {thing.rack}, {describe(end, plan)}" if thing and thing.rack else describe(end, plan)


def counted(number: int, thing: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "finding"), counted(2, "finding")
    ('1 finding', '2 findings')
    """
    return f"{number} {thing}" + ("" if number == 1 else "s")
