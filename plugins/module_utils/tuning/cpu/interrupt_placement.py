# SPDX-License-Identifier: GPL-3.0-or-later
"""Move the interrupts of NICs to their planned CPUs, and compare them.

bedplate-irqs.service runs it when a NIC appears and once a minute, since no event reports a new vector. Usage:
python3 -m ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpu.interrupt_placement SETTINGS [ROOT].

Managed interrupts, which the driver requested with fixed CPUs, cannot be moved: the kernel refuses with EIO, since Linux 6.12 with EPERM.
Only an attempt shows them, so each run records them for `verify`, which changes nothing.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...common.cpulists import CpulistError, cpu_numbers, fold, parse
from ...common.files import atomic_write
from ...common.finding import NOTICE, Finding
from ...common.sysfs import Root
from ...primitives.kernel import settings_unit
from ..pci.machine_topology import network_functions, read_machine
from .irq_plan import IrqPlan, WantedNic, plan, vectors

RECORD = "run/bedplate/managed-interrupts.json"


@dataclass(frozen=True)
class Moved:
    """Result of an attempt: interrupts that were moved, that are managed, and that failed, with the reason."""

    moved: tuple[int, ...]
    managed: tuple[int, ...]
    failed: Mapping[int, str]


def planned(root: Root, settings: Mapping[str, Any]) -> IrqPlan:
    """Return the plan of this machine; `settings` is what the role wrote, with `irqs`."""
    machine = read_machine(str(root.top))
    # Slurm's numbers of cores: Linux may count otherwise.
    kept = cpu_numbers(machine.cores, settings["irqs"]["cores"])
    wanted = [WantedNic(**nic) for nic in settings["irqs"]["nics"]]
    return plan(machine, network_functions(root), wanted, kept)


def apply(root: Root, settings: Mapping[str, Any]) -> Iterator[str]:
    """Move the interrupts; yield the failures."""
    if "irqs" not in settings:
        return
    made = planned(root, settings)
    result = move(root, made)
    if result.moved:
        sys.stdout.write(f"{len(result.moved)} interrupts moved to the CPUs of their NICs\n")
    if _record(root, result.managed):
        sys.stdout.write(f"{len(result.managed)} interrupts are managed by their driver, which distributes them\n")
    for number, reason in result.failed.items():
        yield f"interrupt {number} cannot be moved: {reason}"


def move(root: Root, made: IrqPlan) -> Moved:
    """Move each interrupt to its planned CPU, if it may run on another CPU."""
    moved, managed, failed = [], [], {}
    for nic in made.nics:
        for irq, vector in vectors(root, nic.address).items():
            cpu, path = str(nic.cpu(vector)), f"proc/irq/{irq}/smp_affinity_list"
            if root.text(path, needed=False) in (cpu, None):
                continue
            try:
                root.find(path).write_text(f"{cpu}\n")
                moved.append(irq)
            except FileNotFoundError:
                continue  # the driver has released it in the meantime
            except OSError as error:
                if error.errno in (errno.EIO, errno.EPERM):
                    managed.append(irq)
                else:
                    failed[irq] = error.strerror or str(error)
    return Moved(tuple(moved), tuple(managed), failed)


def drift(root: Root, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the interrupts of this machine with its plan."""
    if "irqs" in settings:
        yield from compare(root, planned(root, settings), managed_interrupts(root))


def compare(root: Root, made: IrqPlan, managed: Collection[int] = ()) -> Iterator[Finding]:
    """Yield a finding for each NIC with an interrupt outside its NUMA node, or on cores of jobs.

    Never compare with one exact CPU: drivers move interrupts too. A NIC without a plan is a notice.
    """
    for nic in made.nics:
        found = {irq: cpus for irq in vectors(root, nic.address) if irq not in managed and (cpus := _cpus(root, irq))}
        where = f"interrupts of {nic.name}"
        if outside := {irq: cpus for irq, cpus in found.items() if not cpus <= nic.near}:
            fix = "systemctl start bedplate-irqs; does irqbalance run, or did someone move them?"
            wanted = f"CPUs {fold(nic.near)} of NUMA node {nic.node}"
            yield Finding("interrupt", where, wanted, _places(outside, len(found)), fix)
        elif on_jobs := {irq: cpus for irq, cpus in found.items() if not cpus <= set(nic.cpus)}:
            fix = "bedplate-irqs.timer moves new interrupts within a minute"
            wanted = f"CPUs {fold(nic.cpus)}, which jobs do not get"
            yield Finding("interrupt-on-jobs", where, wanted, _places(on_jobs, len(found)), fix, NOTICE)
    for name, reason in made.skipped.items():
        yield Finding("interrupt-skipped", f"interrupts of {name}", "", f"not placed: {reason}", severity=NOTICE)


def _places(found: Mapping[int, set[int]], count: int) -> str:
    irq, cpus = next(iter(found.items()))
    return f"{len(found)} of {count} elsewhere, such as interrupt {irq} on CPU {fold(cpus)}"


def _cpus(root: Root, irq: int) -> set[int]:
    """Return the CPUs that the next interrupt goes to; empty if it goes to none yet, or was released in the meantime.

    Without interrupt remapping the kernel moves an interrupt when it next occurs: until then the effective CPU is not an allowed one.
    """
    try:
        allowed, effective = (
            None if text is None else set(parse(text))
            for text in (
                root.text(f"proc/irq/{irq}/{name}_affinity_list", needed=False) for name in ("smp", "effective")
            )
        )
    except CpulistError:
        return set()
    if effective is None:
        return allowed or set()
    return effective if allowed is None or effective <= allowed else allowed


def managed_interrupts(root: Root) -> frozenset[int]:
    """Return the managed interrupts that the last run recorded."""
    try:
        return frozenset(int(one) for one in json.loads(root.text(RECORD, needed=False) or "[]"))
    except (ValueError, TypeError):
        return frozenset()


def _record(root: Root, managed: Sequence[int]) -> bool:
    """Record the managed interrupts; return whether the record changed."""
    if frozenset(managed) == managed_interrupts(root):
        return False
    file = root.find(RECORD)
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(file, json.dumps(sorted(managed)) + "\n", sync=False)  # in memory
    return True


def main(arguments: Sequence[str]) -> int:
    """Place the interrupts of this machine by the settings of a file."""
    return settings_unit.main(arguments, apply, "node_tuning")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
