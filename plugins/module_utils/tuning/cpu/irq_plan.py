# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the CPU of each interrupt of a NIC: at the NIC's NUMA node, spread over cores, on the cores reserved from jobs if there are any.

Only an attempt shows whether an interrupt can be moved: the kernel refuses with EIO for one that the driver requested as "managed", and
sysfs does not show these.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ...common.cpulists import CpulistError, parse
from ...common.finding import Finding
from ...common.sysfs import Root
from ...gpu.devices.gpu_devices import PCI
from ..pci.topology_model import Machine, NicTopology, NumaNode

_LINE = re.compile(r"\s*(\d+):")


@dataclass(frozen=True)
class IrqPlan:
    """Planned CPUs of interrupts.

    `wanted` maps the number of an interrupt to a list of one CPU; `nics` maps it to its NIC; `skipped` has the NICs that are not planned,
    with the reason.
    """

    wanted: dict[int, str]
    nics: dict[int, str]
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Moved:
    """Result of an attempt: interrupts that were moved, that are managed, and that failed, with the reason."""

    moved: tuple[int, ...]
    managed: tuple[int, ...]
    failed: dict[int, str]


def interrupts(root: Root, nic: NicTopology) -> tuple[int, ...]:
    """Return the interrupts of a NIC: from sysfs, or else the lines of /proc/interrupts that name it."""
    found = [int(name) for name in root.names(f"{PCI}/{nic.address}/msi_irqs") if name.isdecimal()]
    if found:
        return tuple(sorted(found))
    lines = (root.text("proc/interrupts", needed=False) or "").splitlines()
    words = "|".join(re.escape(name) for name in (nic.address, *nic.names))
    names = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
    matches = [_LINE.match(line) for line in lines if names.search(line)]
    return tuple(sorted(int(match[1]) for match in matches if match))


def plan(
    machine: Machine, irqs: Mapping[str, Iterable[int]], spec_cpus: Collection[int] = (), names: Collection[str] = ()
) -> IrqPlan:
    """Return the planned CPUs of NICs' interrupts; `irqs` has the interrupts by PCI address.

    `spec_cpus` are the CPUs that Slurm keeps from jobs (CpuSpecList); interrupts go to those of the NIC's node, if it has any.
    `names` are the NICs to plan; without, all that have RDMA. First all cores of a node are used once, then their other threads;
    a second NIC at the same node continues after the first one.
    """
    wanted: dict[int, str] = {}
    whose: dict[int, str] = {}
    skipped: dict[str, str] = {}
    used: dict[int, int] = {}
    for nic in machine.nics:
        if not (set(nic.names) & set(names) if names else nic.rdma):
            continue
        name, home = nic.names[0], machine.home(nic)
        if home is None:
            skipped[name] = f"{nic.address}: its NUMA node is unknown (-1), so its nearest CPUs are unknown"
            continue
        order = _order(machine, home, spec_cpus)
        if not order:
            skipped[name] = f"{nic.address}: the cores of NUMA node {home.number} could not be read"
            continue
        for irq in irqs.get(nic.address, ()):
            wanted[irq] = str(order[used.get(home.number, 0) % len(order)])
            whose[irq] = name
            used[home.number] = used.get(home.number, 0) + 1
    return IrqPlan(wanted, whose, skipped)


def _order(machine: Machine, home: NumaNode, spec_cpus: Collection[int]) -> list[int]:
    """Return the CPUs of a node in order of use: the first thread of every core, then the second ones."""
    near = set(home.cpus)
    kept = near.intersection(spec_cpus) or near
    threads = [
        (index, core.number, cpu) for core in machine.cores for index, cpu in enumerate(core.cpus) if cpu in kept
    ]
    return [cpu for _index, _core, cpu in sorted(threads)]


def move(root: Root, irq_plan: IrqPlan) -> Moved:
    """Move each interrupt to its planned CPU, if another CPU has it."""
    moved, managed, failed = [], [], {}
    for irq, cpus in sorted(irq_plan.wanted.items()):
        if _settled(root, irq, cpus):
            continue
        try:
            root.find(f"proc/irq/{irq}/smp_affinity_list").write_text(f"{cpus}\n")
            moved.append(irq)
        except OSError as error:
            if error.errno == errno.EIO:
                managed.append(irq)
            else:
                failed[irq] = error.strerror or str(error)
    return Moved(tuple(moved), tuple(managed), failed)


def _settled(root: Root, irq: int, cpus: str) -> bool:
    return root.text(f"proc/irq/{irq}/smp_affinity_list", needed=False) == cpus


def compare(root: Root, irq_plan: IrqPlan, managed: Collection[int] = ()) -> list[Finding]:
    """Return the interrupts on other CPUs than planned, without managed ones, which cannot be moved."""
    rows = []
    for irq, cpus in sorted(irq_plan.wanted.items()):
        found = root.text(f"proc/irq/{irq}/effective_affinity_list", needed=False)
        if irq in managed or _within(found, cpus):
            continue
        setting = f"interrupt {irq} of {irq_plan.nics[irq]}"
        if found is None:
            fix = "it disappeared, as after a reload of the driver: run again, so that the new ones are found"
            rows.append(Finding("interrupt", setting, f"CPU {cpus}", "no such interrupt", fix))
        else:
            fix = f"echo {cpus} >/proc/irq/{irq}/smp_affinity_list; if that fails with EIO, it is managed. irqbalance may have moved it"
            rows.append(Finding("interrupt", setting, f"CPU {cpus}", f"CPU {found or 'none'}", fix))
    return rows


def _within(found: str | None, wanted: str) -> bool:
    """Return whether an interrupt goes only to planned CPUs."""
    try:
        have = set(parse(found or ""))
    except CpulistError:
        return False
    return bool(have) and have <= set(parse(wanted))
