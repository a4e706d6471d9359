# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the CPUs of a NIC's interrupts by vector: at the NIC's NUMA node, on the cores reserved from jobs if there are any.

A driver makes vectors when it needs them: mlx5 makes its completion vectors one by one since Linux 6.6, and none exist before an interface
is up. So the plan names no interrupt. Each NIC has a list of CPUs, and its vector i has the CPU i of that list, whichever vectors exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ...common.sysfs import Root
from ...gpu.devices.gpu_devices import PCI
from ..pci.topology_model import Machine, NicTopology, NumaNode

# The index of a vector in hwirq. x86 before Linux 6.2, and arm64 before 6.9, put the PCI address above these bits.
_INDEX = 0x7FF


@dataclass(frozen=True)
class WantedNic:
    """A NIC whose interrupts are planned: by its PCI address, or by the name of its RDMA device or interface if `pci` is ""."""

    name: str
    pci: str = ""


@dataclass(frozen=True)
class NicPlan:
    """Planned CPUs of one NIC.

    Vector i runs on `cpus[i % len(cpus)]`; `near` are all CPUs of the NIC's NUMA node, whose number is `node`.
    """

    name: str
    address: str
    node: int
    cpus: tuple[int, ...]
    near: frozenset[int]

    def cpu(self, vector: int) -> int:
        """Return the CPU of a vector."""
        return self.cpus[vector % len(self.cpus)]


@dataclass(frozen=True)
class IrqPlan:
    """The planned NICs, and name -> reason of NICs that cannot be planned."""

    nics: tuple[NicPlan, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)


def plan(
    machine: Machine,
    functions: Mapping[str, int | None],
    wanted: Collection[WantedNic],
    spec_cpus: Collection[int] = (),
) -> IrqPlan:
    """Return the planned CPUs of NICs.

    `functions` are the machine's network adapters, PCI address -> NUMA node, with those that have no driver yet. `spec_cpus` are the CPUs
    that Slurm keeps from jobs (CpuSpecList); interrupts go to those of the NIC's NUMA node, if it has any.

    The adapters of a NUMA node start at evenly distributed places of its CPUs, by their PCI addresses: what a plan has for one NIC depends
    on no driver, name or vector of another one.
    """
    made, skipped = [], {}
    for one in wanted:
        nic = _find(machine, one)
        if nic is None:
            skipped[one.name] = f"no NIC {f'at {one.pci}' if one.pci else 'of this name'} with a driver on this machine"
            continue
        home = machine.home(nic)
        if home is None:
            skipped[one.name] = f"{nic.address}: its NUMA node is unknown (-1), so its nearest CPUs are unknown"
            continue
        order = _order(machine, home, spec_cpus)
        if not order:
            skipped[one.name] = f"{nic.address}: the cores of NUMA node {home.number} could not be read"
            continue
        start = _start(machine, functions, nic.address, home, len(order))
        cpus = (*order[start:], *order[:start])
        made.append(NicPlan(one.name, nic.address, home.number, cpus, frozenset(home.cpus)))
    return IrqPlan(tuple(made), skipped)


def _find(machine: Machine, wanted: WantedNic) -> NicTopology | None:
    if wanted.pci:
        return next((nic for nic in machine.nics if nic.address == wanted.pci), None)
    return next((nic for nic in machine.nics if wanted.name in nic.names), None)


def _start(machine: Machine, functions: Mapping[str, int | None], address: str, home: NumaNode, cpus: int) -> int:
    """Return where a NIC starts in the CPUs of its NUMA node."""
    here = sorted({address, *(one for one, node in functions.items() if machine.home_of(node) == home)})
    return here.index(address) * cpus // len(here)


def _order(machine: Machine, home: NumaNode, spec_cpus: Collection[int]) -> list[int]:
    """Return the CPUs of a node in order of use: the first thread of every core, then the second ones."""
    near = set(home.cpus)
    kept = near.intersection(spec_cpus) or near
    threads = [
        (index, core.number, cpu) for core in machine.cores for index, cpu in enumerate(core.cpus) if cpu in kept
    ]
    return [cpu for _index, _core, cpu in sorted(threads)]


def vectors(root: Root, address: str) -> dict[int, int]:
    """Return interrupt -> vector index of the interrupts that a NIC's driver uses now.

    An interrupt without a directory in /proc/irq has no handler: the driver has allocated it and does not use it. Without a number of the
    hardware in sysfs, the interrupt's own number is the index.
    """
    found = [int(name) for name in root.names(f"{PCI}/{address}/msi_irqs") if name.isdecimal()]
    return {irq: _index(root, irq) for irq in sorted(found) if root.exists(f"proc/irq/{irq}")}


def _index(root: Root, irq: int) -> int:
    text = root.text(f"sys/kernel/irq/{irq}/hwirq", needed=False) or ""
    return int(text) & _INDEX if text.isdecimal() else irq
