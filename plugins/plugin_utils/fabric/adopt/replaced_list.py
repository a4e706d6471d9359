# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what a new list of cables changes besides names: cables in other ports, and cells that people wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ...cluster import Cluster, Fabric
from ..core.fabric_model import Hca
from ..core.places import End, counted
from ..core.unnamed_nodes import guid_in_name
from ..plan.cable_rows import parse, read
from ..plan.listed_ends import known_hcas, resolve
from .adopted_list import AdoptedList
from .seen_fabric import SeenFabric

_SHOWN = 10
# Comments that adoption writes itself.
OWN_COMMENT = "without a name"


def replaced_findings(
    cluster: Cluster, fabric: Fabric, seen: SeenFabric, listed: AdoptedList, path: Path
) -> list[Finding]:
    """Return findings on what the list at `path` has and the new one has not; none if there is no list, or if it has mistakes."""
    if not path.exists():
        return []
    known = known_hcas(cluster, by_unit=False)
    written = read(path)
    old = resolve(written, cluster.fabric or fabric, known)
    if written.mistakes:
        return []
    new = resolve(parse(listed.text, str(path)), fabric, known)
    now = _by_end([cable.ends for cable in new.cables])
    before = {tuple(_now_called(end, seen, listed) for end in cable.ends): cable.written for cable in old.cables}
    found = list(_moved(_by_end(list(before)), now, new.hcas, cluster.name))
    comments = {frozenset(cable.ends): cable.written.comment for cable in new.cables}
    lost = []
    for ends, row in before.items():
        cells = ["state"] if row.left_out else []
        if row.comment and not row.comment.startswith(OWN_COMMENT) and comments.get(frozenset(ends)) != row.comment:
            cells.append("comment")
        if cells:
            lost.append(f"line {row.line} ({' and '.join(cells)})")
    if lost:
        text = f"{counted(len(lost), 'row')} of {path.name} with a state or a comment that the new list does not have: {few(lost, _SHOWN)}"
        remedy = "copy them from the old list, which --diff shows, and git keeps"
        found.append(Finding("lost", cluster.name, "", text, remedy, WARNING))
    return found


def _now_called(end: End, seen: SeenFabric, listed: AdoptedList) -> End:
    """Return an end with the name that its node has now, if the old list knows it by its GUID."""
    guid = guid_in_name(end[0])
    name = seen.names.get(guid, end[0]) if guid else end[0]
    return listed.renamed.get(name, name), end[1]


def _by_end(cables: list[tuple[End, ...]]) -> dict[End, End]:
    return {end: far for one, other in cables for end, far in ((one, other), (other, one))}


def _moved(before: Mapping[End, End], now: Mapping[End, End], hcas: Mapping[str, Hca], title: str) -> Iterator[Finding]:
    """Yield one finding on cables that are in other ports than in the old list; a cable is named once, by its HCA if it has one."""
    words: list[str] = []
    ports: dict[End, None] = {}
    for end, far in sorted(now.items(), key=lambda pair: pair[0][0] not in hcas):
        if end not in ports and before.get(end, far) != far:
            words.append(f"{_place(end, hcas)} from {_place(before[end], hcas)} to {_place(far, hcas)}")
            ports |= dict.fromkeys((end, far, before[end]))
    if words:
        text = f"{counted(len(words), 'cable')} in other ports than in the list: {few(words, _SHOWN)}"
        remedy = (
            "the new list makes that the plan: if it is a fault, move the cables back, discover again and adopt then"
        )
        yield Finding("moved", title, "", text, remedy, WARNING, ports=tuple(ports))


def _place(end: End, hcas: Mapping[str, Hca]) -> str:
    name, port = end
    # A card that left has no HCA now; names of switches have no blank.
    return name if name in hcas or " " in name else f"{name} port {port}"
