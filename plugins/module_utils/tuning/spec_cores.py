# SPDX-License-Identifier: GPL-3.0-or-later
"""Cores that Slurm keeps from jobs, for the system and its interrupts, as each of those who have to know it writes them."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpulists import core_numbers, cpu_numbers, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.model import Machine


@dataclass(frozen=True)
class SpecCores:
    """Cores kept from jobs: `cores` by Slurm's numbers, `spec_list` for CpuSpecList, `cpus` as Linux numbers their CPUs."""

    cores: tuple[int, ...]
    spec_list: str
    cpus: tuple[int, ...]

    @property
    def cpulist(self) -> str:
        """Return the CPUs as a list of Linux's."""
        return fold(self.cpus)


def first_of_each_node(machine: Machine, count: int) -> SpecCores:
    """Return the first `count` cores of every NUMA node with CPUs, so that each device has one of them near. 0: none.

    CpuSpecList counts CPUs as Slurm does, "abstract CPU IDs" of slurm.conf(5): core by core, the threads of one together.
    A node keeps at least one core for jobs.
    """
    kept: list[int] = []
    for node in machine.cpu_nodes:
        cores = core_numbers(machine.cores, node.cpus)
        kept += cores[: min(count, len(cores) - 1)]
    threads = max((len(core.cpus) for core in machine.cores), default=1)
    abstract = [core * threads + thread for core in kept for thread in range(threads)]
    return SpecCores(tuple(kept), fold(abstract), cpu_numbers(machine.cores, kept))
