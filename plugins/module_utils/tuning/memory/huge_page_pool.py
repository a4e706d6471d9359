# SPDX-License-Identifier: GPL-3.0-or-later
"""Huge pages of each NUMA node and size: refused, taken, given back, and compared.

Pages are taken only while no job runs on the machine, and never below the floor. The kernel gives what it has and says nothing of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...common.finding import NOTICE, Finding
from ...common.remedies import run_role_again
from ...common.sysfs import Root
from ..pci.machine_topology import NODES, is_container, read_nodes
from .memory_floor import MEBIBYTES, Pages, excesses, pages_from

_GLOBAL = "sys/kernel/mm/hugepages"
Jobs = Callable[[], Sequence[str]]
"""Returns what runs on the machine, as `reboot_notes.jobs` does."""


@dataclass
class PoolChange:
    """What became of the pages: (pages, count before, count after) of those changed, what waits, and why all of it was refused."""

    changed: list[tuple[Pages, int, int]] = field(default_factory=list)
    waiting: list[Finding] = field(default_factory=list)
    refused: list[Finding] = field(default_factory=list)


def _directory(one: Pages) -> str:
    return f"{NODES}/node{one.node}/hugepages/hugepages-{MEBIBYTES[one.size] * 1024}kB"


def _number(root: Root, path: str) -> int | None:
    text = root.text(path, needed=False)
    return int(text) if text and text.isdecimal() else None


def count(root: Root, one: Pages) -> int | None:
    """Return how many there are; None: there is no such node, or it has no such size."""
    return _number(root, f"{_directory(one)}/nr_hugepages")


def used(root: Root, one: Pages) -> int:
    """Return how many a process has, or has been promised; all, where the kernel does not tell which are free."""
    there, free = count(root, one) or 0, _number(root, f"{_directory(one)}/free_hugepages")
    # A promise is not made by a NUMA node, so each may have to keep all of them.
    promised = _number(root, f"{_GLOBAL}/hugepages-{MEBIBYTES[one.size] * 1024}kB/resv_hugepages") or 0
    return there if free is None else min(there, there - free + promised)


def refusals(root: Root, wanted: Sequence[Pages], reserve_mib: int, now: bool = True) -> list[Finding]:
    """Return why a machine cannot have these pages: no such NUMA node, no such size, or less left than the floor.

    Pages that the kernel has already are not refused: another kernel may count some MiB less memory than the one before, and a machine
    that has booted with its pages goes on with them. `reserve_mib` is the profile's. `now` counts pages of other sizes, too, that the
    running kernel has; the next boot has none of them.
    """
    nodes = {node.number: node for node in read_nodes(root) if node.cpus}
    found, memory = [], {number: node.memory_mib for number, node in nodes.items() if node.memory_mib}
    for one in wanted:
        if not one.count:
            continue
        if one.node not in memory:
            there = ", ".join(map(str, sorted(memory))) or "none"
            found.append(_impossible(one, f"NUMA nodes with CPUs and memory: {there}", "`numa` of the profile"))
        elif count(root, one) is None:
            has = ", ".join(nodes[one.node].hugepages) or "none"
            found.append(_impossible(one, f"sizes that CPUs and kernel have: {has}", "`hugepages` of the profile"))
    others = _others(root, wanted) if now else []
    beyond = excesses(memory, [*wanted, *others], reserve_mib)
    growing = {one.pages.node for one in beyond if (count(root, one.pages) or 0) < one.pages.count}
    return [*found, *(one.finding() for one in beyond if one.pages.node in growing and one.pages not in others)]


def _impossible(one: Pages, found: str, key: str) -> Finding:
    return Finding("huge-pages-place", one.name, str(one.count), found, f"correct {key} in the cluster file")


def _others(root: Root, wanted: Sequence[Pages]) -> list[Pages]:
    """Return the pages that are there and of which nobody says anything."""
    named = {(one.node, one.size) for one in wanted}
    return [
        Pages(node.number, size, there)
        for node in read_nodes(root)
        for size, there in node.hugepages.items()
        if there and size in MEBIBYTES and (node.number, size) not in named
    ]


def boots_with(root: Root, tokens: Sequence[str]) -> bool:
    """Return whether the kernel that runs was given these tokens."""
    return set(tokens) <= set((root.text("proc/cmdline") or "").split())


def apply_settings(root: Root, settings: Mapping[str, Any], jobs: Jobs, check: bool = False) -> PoolChange:
    """Bring the pages of bedplate-tuning's settings, or leave them to the next boot. A container has no huge pages of its own."""
    if is_container(root):
        return PoolChange()
    at_boot = settings["pages_at"] == "boot" and not boots_with(root, settings["pending"])
    return apply(root, pages_from(settings["pages"]), settings["reserve_mib"], jobs, at_boot, check)


def apply(
    root: Root,
    wanted: Sequence[Pages],
    reserve_mib: int,
    jobs: Jobs,
    at_boot: bool = False,
    check: bool = False,
) -> PoolChange:
    """Bring each NUMA node to its pages, or predict that.

    `jobs` returns what runs on the machine; while it returns something, no pages are taken. `at_boot` leaves the taking of pages to the
    next boot. Pages that are in use are not given back. If the kernel gives too few, all are put back as they were.
    """
    outcome = PoolChange(refused=refusals(root, wanted, reserve_mib, now=not at_boot))
    # What one size gives back is what another one may need.
    for one in () if outcome.refused else sorted(wanted, key=lambda one: _growth(root, one)):
        before = count(root, one) or 0
        target = max(one.count, min(before, used(root, one)))
        reason = _reason_to_wait(one, before, target, jobs, at_boot)
        if target > before and not (reason or _fits(root, one, outcome.changed, reserve_mib)):
            reason = "pages of another size are still in use; run node_tuning again when no process uses them"
        if reason:
            outcome.waiting.append(Finding("huge-pages-waiting", one.name, str(one.count), str(before), reason, NOTICE))
        if target == before or (target > before and reason):
            continue
        outcome.changed.append((one, before, target))
        if check:
            continue
        got = _take(root, one, target)
        if got < target:
            outcome.refused.append(_shortfall(one, got))
    if outcome.refused:
        for one, before, _target in reversed(outcome.changed):
            _write(root, one, before)
        outcome.changed.clear()
    return outcome


def _fits(root: Root, one: Pages, changed: Sequence[tuple[Pages, int, int]], reserve_mib: int) -> bool:
    """Return whether the floor of a NUMA node holds with these pages and those of other sizes that could not be given back."""
    nodes = [node for node in read_nodes(root) if node.cpus]
    after = {(pages.node, pages.size): target for pages, _before, target in changed}
    others = [
        Pages(node.number, size, after.get((node.number, size), there))
        for node in nodes
        for size, there in node.hugepages.items()
        if node.number == one.node and size in MEBIBYTES and size != one.size
    ]
    return not excesses({node.number: node.memory_mib or 0 for node in nodes}, [*others, one], reserve_mib)


def _growth(root: Root, one: Pages) -> int:
    return one.mebibytes - (count(root, one) or 0) * MEBIBYTES[one.size]


def _reason_to_wait(one: Pages, before: int, target: int, jobs: Jobs, at_boot: bool) -> str:
    """Return what a change waits for; "" if it waits for nothing."""
    if target > one.count:
        return f"{target - one.count} more are given back when no process uses them; run node_tuning again then"
    if one.count <= before:
        return ""
    if at_boot:
        return "the next boot takes them"
    running = "; ".join(jobs())
    return (
        f"they are taken when no job runs here; run node_tuning again then, or drain and reboot: {running}"
        if running
        else ""
    )


def _shortfall(one: Pages, got: int) -> Finding:
    what = f"the kernel gave {got}: its memory is in use or in pieces; all pages were put back as they were"
    fix = "stop what uses the memory, or lower `hugepages`, or set node_tuning_hugepages: boot and reboot the node"
    return Finding("huge-pages-short", one.name, str(one.count), what, fix)


def _write(root: Root, one: Pages, number: int) -> int:
    """Have the kernel bring a NUMA node to so many pages, and return how many it has then."""
    with suppress(OSError):  # what it does not take is seen below
        root.find(f"{_directory(one)}/nr_hugepages").write_text(f"{number}\n")
    return count(root, one) or 0


def _take(root: Root, one: Pages, target: int) -> int:
    """Write a number of pages; where the kernel gives fewer, once more after it dropped its caches and joined free memory."""
    got = _write(root, one, target)
    if got < target:
        for path, value in (("proc/sys/vm/drop_caches", "3"), ("proc/sys/vm/compact_memory", "1")):
            if root.exists(path):
                root.find(path).write_text(f"{value}\n")
        got = _write(root, one, target)
    return got


def drift(root: Root, wanted: Sequence[Pages], jobs: Jobs = list) -> Iterator[Finding]:
    """Compare what is there, and yield what nobody wants as well: memory that jobs do not get.

    Pages that wait for the end of jobs are a notice.
    """
    for one in wanted:
        there = count(root, one)
        if (there or 0) == one.count:
            continue
        reason = _reason_to_wait(one, there or 0, max(one.count, min(there or 0, used(root, one))), jobs, at_boot=False)
        if reason and there is not None:
            yield Finding("huge-pages-waiting", one.name, str(one.count), str(there), reason, NOTICE)
            continue
        fix = f"{run_role_again('node_tuning')}; where the kernel has too little free memory, drain the node and reboot it"
        found = "none of this size" if there is None else str(there)
        yield Finding("huge-pages", one.name, str(one.count), found, fix, reboot=True)
    for other in _others(root, wanted):
        fix = "who reserves them? grep -r hugepages /etc/sysctl.d /etc/default/grub*, then run node_tuning again"
        yield Finding("huge-pages", other.name, "0", str(other.count), fix)
