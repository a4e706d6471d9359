# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse huge pages on a kernel command line that would leave a NUMA node less than its floor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...common.finding import Finding
from ...common.sysfs import Root
from ..memory.memory_floor import floor_mib
from ..pci.machine_topology import is_container, read_nodes
from .cmdline_tokens import Token

_SIZE = re.compile(r"([0-9]+)([KMG]?)\Z", re.IGNORECASE)
_KIB = {"": 1 / 1024, "K": 1, "M": 1 << 10, "G": 1 << 20}
_ALL = -1


def refusals(root: Root, tokens: Sequence[Token]) -> list[Finding]:
    """Return a finding for each NUMA node that would have less than its floor after the next boot.

    A number without a NUMA node is compared with the memory of all nodes. A container, and a file tree without a running kernel, such as an
    image, are not compared. Neither are tokens of the running kernel: it has booted with them, and another kernel may count some MiB less.
    """
    given = (root.text("proc/cmdline", needed=False) or "").split()
    if {str(token) for token in tokens if _is_of_pages(token)} <= set(given):
        return []
    memory = {node.number: node.memory_mib for node in read_nodes(root) if node.memory_mib}
    if not memory or is_container(root):
        return []
    asked: dict[int, float] = {}
    for node, mib in _asked(tokens):
        asked[node] = asked.get(node, 0) + mib
    return [one for node, mib in sorted(asked.items()) for one in _compared(memory, node, mib)]


def _is_of_pages(token: Token) -> bool:
    return token.key in ("hugepages", "hugepagesz")


def _compared(memory: dict[int, int], node: int, asked: float) -> Iterator[Finding]:
    where = "hugepages on the kernel command line, " + ("all NUMA nodes" if node == _ALL else f"NUMA node {node}")
    if node not in (_ALL, *memory):
        there = ", ".join(map(str, memory))
        yield Finding(
            "huge-pages-place", where, f"{asked:.0f} MiB", f"NUMA nodes with memory: {there}", "correct `numa`"
        )
        return
    has = sum(memory.values()) if node == _ALL else memory[node]
    # All pages may be on any of the nodes, each of which has its floor.
    kept = sum(map(floor_mib, memory.values())) if node == _ALL else floor_mib(has)
    if asked > has - kept:
        most = f"at most {has - kept} MiB: the node has {has} MiB, and {kept} MiB must stay without huge pages"
        yield Finding("huge-pages-floor", where, most, f"{asked:.0f} MiB requested", "lower the number of huge pages")


def _asked(tokens: Sequence[Token]) -> Iterator[tuple[int, float]]:
    """Yield NUMA node and MiB for each `hugepages` number, with the size of the hugepagesz before it."""
    mib = 0.0
    for token in tokens:
        name, value = token.key, token.value or ""
        if name == "hugepagesz" and (match := _SIZE.match(value)):
            mib = int(match[1]) * _KIB[match[2].upper()] / 1024
        elif name == "hugepages":
            for part in value.split(","):
                node, colon, count = part.rpartition(":")
                if count.isdecimal() and (node.isdecimal() or not colon):
                    yield (int(node) if colon else _ALL), int(count) * mib
