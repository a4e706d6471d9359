# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages of each NUMA node and size: taken, given back, and counted. The kernel gives what it has and says nothing of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.machine import NODES, read_nodes

MEBIBYTES = {"2M": 2, "1G": 1024}


@dataclass(frozen=True)
class Pages:
    """How many pages of a size (2M, 1G) a NUMA node is to have."""

    node: int
    size: str
    count: int

    @property
    def mebibytes(self) -> int:
        """The memory that they take."""
        return self.count * MEBIBYTES[self.size]

    @property
    def name(self) -> str:
        """What a person calls them."""
        return f"huge pages of {self.size} on NUMA node {self.node}"


def pages_from(data: Sequence[Mapping[str, object]]) -> list[Pages]:
    """Return what is wanted, of JSON's objects."""
    return [Pages(int(str(one["node"])), str(one["size"]), int(str(one["count"]))) for one in data]


def _path(one: Pages) -> str:
    return f"{NODES}/node{one.node}/hugepages/hugepages-{MEBIBYTES[one.size] * 1024}kB/nr_hugepages"


def count(root: Root, one: Pages) -> int | None:
    """Return how many there are; None: there is no such node, or it has no such size."""
    text = root.text(_path(one), needed=False)
    return int(text) if text and text.isdecimal() else None


def beyond(root: Root, wanted: Sequence[Pages]) -> list[str]:
    """Return the NUMA nodes of which more is asked than they have: such a machine might not boot again."""
    nodes = {node.number: node for node in read_nodes(root)}
    found = []
    for number in sorted({one.node for one in wanted if one.count}):
        here = [one for one in wanted if one.node == number and one.count]
        asked, node = sum(one.mebibytes for one in here), nodes.get(number)
        if node is None or not node.cpus:
            there = ", ".join(str(one.number) for one in nodes.values() if one.cpus)
            why = f"this machine's nodes with CPUs are {there}"
        elif node.memory_mib is not None and asked >= node.memory_mib:
            why = f"that is {asked} MiB of a node that has {node.memory_mib} MiB in all"
        else:
            continue
        each = ", ".join(f"of {one.size} asked {one.count}, got {count(root, one) or 0}" for one in here)
        found.append(f"huge pages on NUMA node {number}: {each}; {why}: nothing was changed")
    return found


def bring(root: Root, wanted: Sequence[Pages], pending: bool, say: Callable[[str], None] = print) -> list[str]:
    """Bring each NUMA node to its pages; return where there are fewer. `pending`: the next boot is to bring them."""
    if too_much := beyond(root, wanted):
        return too_much
    short = []
    # What one size gives back is what another one may need.
    for one in sorted(wanted, key=lambda one: one.mebibytes - (count(root, one) or 0) * MEBIBYTES[one.size]):
        there = count(root, one)
        if there is not None and there != one.count:
            root.find(_path(one)).write_text(f"{one.count}\n")
            there = count(root, one)
        if (there or 0) == one.count:
            continue
        text = f"{one.name}: asked {one.count}, got {there or 0}"
        if pending:
            say(f"{text}; the next boot takes them before anything else has the memory")
        elif there is None:
            short.append(f"{text}: its CPUs, or its kernel, have no pages of this size")
        else:
            short.append(f"{text}: its memory is in use or in pieces. Stop what uses it, or reboot")
    return short


def drift(root: Root, wanted: Sequence[Pages]) -> Iterator[Finding]:
    """Compare what is there, and yield what nobody wants as well: memory that jobs do not get."""
    for one in wanted:
        there = count(root, one)
        if (there or 0) != one.count:
            fix = "systemctl restart bedplate-tuning; where that does not get them, drain the node and reboot it"
            yield Finding(
                "huge-pages",
                one.name,
                str(one.count),
                "none of this size" if there is None else str(there),
                fix,
                reboot=True,
            )
    named = {(one.node, one.size) for one in wanted}
    for node in read_nodes(root):
        for size, there in node.hugepages.items():
            if there and (node.number, size) not in named and size in MEBIBYTES:
                fix = (
                    "who reserves them? grep -r hugepages /etc/sysctl.d /etc/default/grub*, then run node_tuning again"
                )
                yield Finding("huge-pages", f"huge pages of {size} on NUMA node {node.number}", "0", str(there), fix)
