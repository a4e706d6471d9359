# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute the memory of a NUMA node that huge pages must not use: without it the kernel does not boot, or kills processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...common.finding import Finding

MEBIBYTES = {"2M": 2, "1G": 1024}
"""Huge page sizes -> MiB of one page."""
LEAST_MIB = 2048
LEAST_PERCENT = 5
# Of a NUMA node of less than 8 GiB, where 25 % are less than LEAST_MIB. Debian's kernel and initramfs need about 512 MiB to boot.
SMALL_PERCENT = 25
SMALL_MIB = 512


@dataclass(frozen=True)
class Pages:
    """Desired number of pages of one size (2M, 1G) on a NUMA node."""

    node: int
    size: str
    count: int

    @property
    def mebibytes(self) -> int:
        """Return the memory that they use."""
        return self.count * MEBIBYTES[self.size]

    @property
    def name(self) -> str:
        """Return their name for the operator."""
        return f"huge pages of {self.size} on NUMA node {self.node}"


def pages_from(data: Sequence[Mapping[str, object]]) -> list[Pages]:
    """Return the pages from JSON objects."""
    return [Pages(int(str(one["node"])), str(one["size"]), int(str(one["count"]))) for one in data]


def floor_mib(memory_mib: int, reserve_mib: int = 0) -> int:
    """Return the MiB of a NUMA node that must stay without huge pages.

    It is the largest of the node's share of the profile's reserve, 5 % of the node, and 2 GiB. On a node of less than 8 GiB, 25 % of it
    replace the 2 GiB, but at least 512 MiB.

    >>> floor_mib(1024), floor_mib(4096), floor_mib(16384), floor_mib(262144), floor_mib(262144, 32768)
    (512, 1024, 2048, 13108, 32768)
    """
    least = min(LEAST_MIB, max(SMALL_MIB, _percent(memory_mib, SMALL_PERCENT)))
    return max(reserve_mib, _percent(memory_mib, LEAST_PERCENT), least)


def reserve_share(reserve_mib: int, memory_mib: int, total_mib: int) -> int:
    """Return the share of one NUMA node in the profile's reserve: as much of it as the node has of all memory, rounded up.

    >>> reserve_share(1000, 2048, 8192), reserve_share(1001, 4096, 8192)
    (250, 501)
    """
    return -(-reserve_mib * memory_mib // total_mib) if total_mib else reserve_mib


def _percent(memory_mib: int, percent: int) -> int:
    return -(-memory_mib * percent // 100)


@dataclass(frozen=True)
class Excess:
    """Pages of one size that leave a NUMA node less than its floor; memory in MiB.

    `asked` is the memory of all sizes on that node, `most` how many pages of this size it can have beside the others.
    """

    pages: Pages
    memory: int
    floor: int
    asked: int
    most: int

    def finding(self) -> Finding:
        """Return it as a finding."""
        return Finding(
            kind="huge-pages-floor",
            where=self.pages.name,
            expected=f"at most {self.most}: the NUMA node has {self.memory} MiB and must keep {self.floor} MiB",
            found=f"{self.pages.count} requested ({self.asked} MiB in huge pages of all sizes)",
            remedy="lower `hugepages` or `reserved_memory_mib` of the profile in the cluster file",
        )


def excesses(memory: Mapping[int, int], wanted: Sequence[Pages], reserve_mib: int = 0) -> list[Excess]:
    """Return the pages that would leave less than the floor.

    `memory` is NUMA node -> MiB, of all nodes that have CPUs; pages on other nodes are not compared. `reserve_mib` is the profile's,
    for the whole machine.
    """
    total, found = sum(memory.values()), []
    for node, mib in sorted(memory.items()):
        here = [one for one in wanted if one.node == node and one.count]
        asked = sum(one.mebibytes for one in here)
        kept = floor_mib(mib, reserve_share(reserve_mib, mib, total))
        for one in here if asked > mib - kept else ():
            free = mib - kept - (asked - one.mebibytes)
            found.append(Excess(one, mib, kept, asked, max(0, free // MEBIBYTES[one.size])))
    return found
