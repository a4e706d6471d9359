# SPDX-License-Identifier: GPL-3.0-or-later
"""Check, allocate, free and compare huge pages of each NUMA node and size.

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
"""Function that returns the work on the machine, as `reboot_notes.jobs` does."""


@dataclass
class PoolChange:
    """Result of a change: (pages, count before, count after) of the changed ones, what waits, and why everything was refused."""

    changed: list[tuple[Pages, int, int]] = field(default_factory=list)
    waiting: list[Finding] = field(default_factory=list)
    refused: list[Finding] = field(default_factory=list)


def _directory(one: Pages) -> str:
    return f"{NODES}/node{one.node}/hugepages/hugepages-{MEBIBYTES[one.size] * 1024}kB"


def _number(root: Root, path: str) -> int | None:
    text = root.text(path, needed=False)
    return int(text) if text and text.isdecimal() else None


def count(root: Root, one: Pages) -> int | None:
    """Return the number of pages; None if the machine lacks the node or the size."""
    return _number(root, f"{_directory(one)}/nr_hugepages")


def used(root: Root, one: Pages) -> int:
    """Return the number of used or reserved pages; all of them if the kernel does not show which are free."""
    there, free = count(root, one) or 0, _number(root, f"{_directory(one)}/free_hugepages")
    # A reservation belongs to no NUMA node, so each node may have to keep all of them.
    promised = _number(root, f"{_GLOBAL}/hugepages-{MEBIBYTES[one.size] * 1024}kB/resv_hugepages") or 0
    return there if free is None else min(there, there - free + promised)


def refusals(root: Root, wanted: Sequence[Pages], reserve_mib: int, now: bool = True) -> list[Finding]:
    """Return the findings for pages that a machine cannot have: a missing NUMA node, a missing size, or less memory left than the floor.

    Existing pages are not refused: a new kernel may count some MiB less memory than the old one, and a machine that has booted with its
    pages keeps them. `reserve_mib` is the profile's. `now` also counts the running kernel's pages of other sizes, which the next boot will
    not have.
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
    """Return the existing pages that the settings do not mention."""
    named = {(one.node, one.size) for one in wanted}
    return [
        Pages(node.number, size, there)
        for node in read_nodes(root)
        for size, there in node.hugepages.items()
        if there and size in MEBIBYTES and (node.number, size) not in named
    ]


def boots_with(root: Root, tokens: Sequence[str]) -> bool:
    """Return whether the running kernel was started with these tokens."""
    return set(tokens) <= set((root.text("proc/cmdline") or "").split())


def apply_settings(root: Root, settings: Mapping[str, Any], jobs: Jobs, check: bool = False) -> PoolChange:
    """Apply the huge pages of bedplate-tuning's settings, or leave them to the next boot. A container shares the huge pages of its host."""
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
    """Change each NUMA node to its number of pages, or predict that.

    `jobs` returns the work on the machine; while there is any, no pages are allocated. `at_boot` leaves the allocation to the next boot.
    Pages in use are not freed. If the kernel allocates too few, all counts are restored.
    """
    outcome = PoolChange(refused=refusals(root, wanted, reserve_mib, now=not at_boot))
    # Memory freed from one size may be needed by another one.
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
    """Return whether the floor of a NUMA node holds with these pages and with pages of other sizes that could not be freed."""
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
        return f"{target - one.count} more can be freed when no process uses them; run node_tuning again then"
    if one.count <= before:
        return ""
    if at_boot:
        return "the next boot allocates them"
    running = "; ".join(jobs())
    return (
        f"they can be allocated when no job runs here; run node_tuning again then, or drain and reboot: {running}"
        if running
        else ""
    )


def _shortfall(one: Pages, got: int) -> Finding:
    what = f"the kernel allocated {got}: its memory is in use or fragmented; all pages were restored to their former number"
    fix = "stop what uses the memory, or lower `hugepages`, or set node_tuning_hugepages: boot and reboot the node"
    return Finding("huge-pages-short", one.name, str(one.count), what, fix)


def _write(root: Root, one: Pages, number: int) -> int:
    """Set the number of pages of a NUMA node, and return the resulting number."""
    with suppress(OSError):  # the result is checked below
        root.find(f"{_directory(one)}/nr_hugepages").write_text(f"{number}\n")
    return count(root, one) or 0


def _take(root: Root, one: Pages, target: int) -> int:
    """Write a number of pages; if the kernel allocates fewer, drop caches, compact memory and write it once more."""
    got = _write(root, one, target)
    if got < target:
        for path, value in (("proc/sys/vm/drop_caches", "3"), ("proc/sys/vm/compact_memory", "1")):
            if root.exists(path):
                root.find(path).write_text(f"{value}\n")
        got = _write(root, one, target)
    return got


def drift(root: Root, wanted: Sequence[Pages], jobs: Jobs = list) -> Iterator[Finding]:
    """Compare the pages, and also yield unrequested ones: jobs lose their memory.

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
        fix = f"{run_role_again('node_tuning')}; if the kernel has too little free memory, drain the node and reboot it"
        found = "none of this size" if there is None else str(there)
        yield Finding("huge-pages", one.name, str(one.count), found, fix, reboot=True)
    for other in _others(root, wanted):
        fix = "find what reserves them: grep -r hugepages /etc/sysctl.d /etc/default/grub*, then run node_tuning again"
        yield Finding("huge-pages", other.name, "0", str(other.count), fix)
