# SPDX-License-Identifier: GPL-3.0-or-later
"""What discovery commands have printed, whether just now or long ago: which command it was, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import ibnetdiscover, lldp
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan

INFINIBAND, LLDP = "infiniband", "lldp"
Answers = dict[str, Mapping[str, Any]]


class SavedError(ValueError):
    """A text in which there is nothing to compare."""


@dataclass(frozen=True)
class Told:
    """A text and its name: a plane's, a file's, or (of lldpctl) that of the box that was asked."""

    name: str
    text: str

    @property
    def kind(self) -> str:
        """Return `lldp` for JSON, else `infiniband`."""
        return LLDP if self.text.lstrip().startswith(("{", "[")) else INFINIBAND

    def discovery(self) -> ibnetdiscover.Discovery:
        """Return what ibnetdiscover told; SavedError where that is nothing."""
        found = ibnetdiscover.parse(self.text.split("\n"))
        if not found.nodes:
            first = (found.troubles or found.unread or [(0, "")])[0]
            said = f"; line {first[0]} is {first[1][:120]!r}" if first[0] else " and is empty"
            raise SavedError(
                f"{self.name or 'the fabric'}: has no switch and no HCA in it{said}; allowed: what ibnetdiscover prints"
            )
        return found

    def answers(self) -> Answers:
        """Return box -> answer of lldpctl; SavedError for JSON that is none. A file may hold one answer, or one for each box."""
        try:
            data = json.loads(self.text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise SavedError(f"{self.name}: is not JSON: {error}; allowed: what lldpctl -f json prints") from error
        if isinstance(data, dict) and "lldp" in data:
            data = {self.name: data}
        if not isinstance(data, dict) or not data:
            raise SavedError(f"{self.name}: is no answer of lldpctl; allowed: one, or an object, box -> answer")
        wrong = []
        for box, answer in data.items():
            try:
                for _ in lldp.neighbours(answer if isinstance(answer, dict) else {}):
                    pass
            except lldp.LldpError as error:
                wrong.append(f"{self.name}: {box}: {error}")
        if wrong:
            raise SavedError("\n".join(wrong))
        return data


def discoveries(told: Iterable[Told], plan: Plan | None = None, step: int = 1) -> dict[str, ibnetdiscover.Discovery]:
    """Return name -> discovery, all of LLDP as one; SavedError names all texts that are of no use.

    LLDP needs a plan: only that tells switches from hosts. `step` is by how much the numbers of SONiC's ports grow.
    """
    found: dict[str, ibnetdiscover.Discovery] = {}
    answers: Answers = {}
    wrong = []
    for one in told:
        try:
            if one.kind == LLDP:
                answers.update(one.answers())
            else:
                found[one.name if one.name not in found else f"{one.name} {len(found)}"] = one.discovery()
        except SavedError as error:
            wrong.append(str(error))
    if answers and plan is None:
        wrong.append("LLDP tells no switch from a host, so a plan is needed: a section `fabric` in the cluster file")
    if not found and not answers and not wrong:
        wrong.append("nothing was discovered: no text was given")
    if wrong:
        raise SavedError("\n".join(wrong))
    if answers and plan is not None:
        found[LLDP] = lldp.discovery_of(answers, plan, step=step)
    return found


def normalised(found: ibnetdiscover.Discovery) -> list[dict[str, Any]]:
    """Return the nodes in the order of their GUIDs, without LIDs, so that two discoveries of one fabric are the same."""
    return [
        {
            "guid": node.guid,
            "kind": node.kind,
            "description": node.description,
            "ports": node.ports,
            "cables": [
                {"port": port, "guid": cable.guid, "far_port": cable.port, "rate": f"{cable.width}{cable.speed}"}
                for port, cable in sorted(node.cables.items())
            ],
        }
        for node in sorted([*found.nodes.values(), *found.twins], key=lambda node: (node.guid, node.description))
    ]


def counts(found: ibnetdiscover.Discovery) -> dict[str, int]:
    """Return how much there is of everything; a cable of which both ends tell is one."""
    ends = {
        frozenset(((node.guid, port), (cable.guid, cable.port)))
        for node in found.nodes.values()
        for port, cable in node.cables.items()
    }
    switches = len(found.switches)
    return {
        "switches": switches,
        "hcas": sum(node.kind == ibnetdiscover.CA for node in found.nodes.values()),
        "cables": len(ends),
        "unread": len(found.unread),
        "troubles": len(found.troubles),
    }
