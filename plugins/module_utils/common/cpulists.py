# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse and write CPU lists as Linux writes them, and compute Slurm's core numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# More CPUs than any kernel supports. A longer list is a mistake that would only use memory.
LIMIT = 1 << 16

_PART = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6})(?::([0-9]{1,6})(?:/([0-9]{1,6}))?)?)?\Z")


class CpulistError(ValueError):
    """Report a text that is not a CPU list."""


def parse(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list, sorted and without duplicates. Raises CpulistError.

    A stride is written as in Documentation/admin-guide/kernel-parameters.rst, `first-last:used/group`: the first `used` CPUs
    of every group of `group` CPUs. `first-last:step`, as libnuma and numactl write it, is every `step`-th CPU.

    >>> parse("0-3,8,10-15:2")
    (0, 1, 2, 3, 8, 10, 12, 14)
    >>> parse("0-7:2/4")
    (0, 1, 4, 5)
    """
    found: set[int] = set()
    for part in text.strip().split(","):
        if part.strip():
            found.update(_part(part.strip(), text))
    return tuple(sorted(found))


def _part(part: str, text: str) -> Iterable[int]:
    match = _PART.match(part)
    if not match:
        raise CpulistError(
            f"{text!r} is not a CPU list: {part!r} cannot be read. Allowed: numbers and ranges such as 0-3,8,10-15:2"
        )
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if last < first or last >= LIMIT:
        raise CpulistError(f"{text!r} is not a CPU list: {part!r} must ascend and end at or below CPU {LIMIT - 1}")
    if match[4]:
        used, group = int(match[3]), int(match[4])
        if not 0 < used <= group:
            raise CpulistError(
                f"{text!r} is not a CPU list: {part!r} uses {used} CPUs of every {group}. Allowed: 1 to {group}"
            )
        return (cpu for cpu in range(first, last + 1) if (cpu - first) % group < used)
    step = int(match[3]) if match[3] else 1
    if not step:
        raise CpulistError(f"{text!r} is not a CPU list: {part!r} has a step of 0. Allowed: 1 or more")
    return range(first, last + 1, step)


def fold(cpus: Iterable[int]) -> str:
    """Return CPUs or cores as a list in the form of the kernel: ranges, without strides.

    >>> fold([3, 1, 2, 8])
    '1-3,8'
    """
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def mask(cpus: Iterable[int], width: int) -> str:
    """Return CPUs as a mask in the form of sysfs's local_cpus: 32-bit words in hex, the highest first.

    `width` is the minimum number of CPUs in the mask.

    >>> mask([0, 33], 40)
    '00000002,00000001'
    """
    bits = 0
    for cpu in cpus:
        bits |= 1 << cpu
    words = max(1, -(-max(width, bits.bit_length()) // 32))
    return ",".join(f"{bits >> (32 * word) & 0xFFFFFFFF:08x}" for word in reversed(range(words)))


@dataclass(frozen=True)
class CpuPlace:
    """Hold the position of a CPU. Each field except the CPU names a group by its lowest CPU number.

    `cache` is the group that shares an L3 cache, or the CPU's own group if the cache is not reported.
    """

    cpu: int
    package: int
    numa: int
    cache: int
    core: int


@dataclass(frozen=True)
class Core:
    """Hold a core: Slurm's logical number, its socket (from 0), and its CPUs (threads) in order."""

    number: int
    socket: int
    cpus: tuple[int, ...]


def cores_of(places: Iterable[CpuPlace]) -> tuple[Core, ...]:
    """Return the cores in the order of Slurm's core numbers.

    Slurm uses hwloc's logical order (gres.conf(5): "the logical core number (Core L#) seen in lstopo -l"): socket by socket, and within one
    along NUMA nodes, caches and cores, each ordered by its lowest CPU number. Linux may use another order: even CPUs on one socket and odd
    ones on the other, the second threads after all first ones.
    """
    threads: dict[tuple[int, int, int, int], list[int]] = {}
    for place in places:
        threads.setdefault((place.package, place.numa, place.cache, place.core), []).append(place.cpu)
    sockets = {package: number for number, package in enumerate(sorted({key[0] for key in threads}))}
    return tuple(
        Core(number, sockets[key[0]], tuple(sorted(threads[key]))) for number, key in enumerate(sorted(threads))
    )


def core_numbers(cores: Sequence[Core], cpus: Iterable[int]) -> tuple[int, ...]:
    """Return Slurm's numbers of the cores that contain any of these CPUs."""
    wanted = set(cpus)
    return tuple(core.number for core in cores if not wanted.isdisjoint(core.cpus))


def cpu_numbers(cores: Sequence[Core], numbers: Iterable[int]) -> tuple[int, ...]:
    """Return all CPUs (threads) of the cores with these Slurm numbers."""
    wanted = set(numbers)
    return tuple(sorted(cpu for core in cores if core.number in wanted for cpu in core.cpus))
