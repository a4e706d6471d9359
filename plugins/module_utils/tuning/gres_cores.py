# SPDX-License-Identifier: GPL-3.0-or-later
"""The `Cores=` of each GPU in gres.conf.

What Slurm demands, by its source, src/interfaces/gres.c, at the tags slurm-22-05-8-1 to slurm-26-05-0-1:

* 22.05 to 24.05 take any cores that the node has. gres.conf(5) of 22.05 advises "to identify all cores on some socket".
* 24.11.0 refuses cores that are a part of a socket ("GRES core specification ... doesn't match socket boundaries"): slurmctld
  sets the node's state when it registers, `slurmd -G` does not say so. gres.conf(5): "all the cores in a socket must be specified
  together". Several whole sockets are fine.
* 25.11.0 takes the cores of one socket, or all cores of the node, nothing between.

A socket is what slurm.conf has as one: with SlurmdParameters=numa_node_as_socket it is a NUMA node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpulists import core_numbers, fold, parse
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.model import Machine
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.numa_map import Plan

WHOLE_SOCKETS, ONE_SOCKET = "24.11", "25.11"


@dataclass(frozen=True)
class GpuCores:
    """The cores of a GPU, "" for no `Cores=`, and why they are more than those of its NUMA node, "" where they are not."""

    gpu: int
    cores: str
    why: str = ""


def widen(cores: str, sockets: int, cores_per_socket: int, version: str) -> str:
    """Return core ids as a release of Slurm takes them, such as 24.11: those given, or all of the sockets that they are in.

    >>> widen("16-31", 2, 64, "24.05"), widen("16-31", 2, 64, "24.11")
    ('16-31', '0-63')
    >>> widen("0-15", 8, 8, "24.11"), widen("0-15", 8, 8, "25.11")
    ('0-15', '0-63')
    """
    ids = parse(cores)
    if version < WHOLE_SOCKETS or not ids or cores_per_socket < 1:
        return cores
    touched = sorted({core // cores_per_socket for core in ids})
    if version >= ONE_SOCKET and len(touched) > 1:
        touched = list(range(sockets))
    wide = fold(core for one in touched for core in range(one * cores_per_socket, (one + 1) * cores_per_socket))
    return cores if wide == fold(ids) else wide


def of_plan(plan: Plan, version: str) -> list[GpuCores]:
    """Return the cores of each GPU as its NUMA node in the profile has them."""
    found = {gpu: node.cores for node in plan.numa for gpu in node.gpus}
    return _finish([found.get(gpu, "") for gpu in range(plan.gpus or 0)], plan, version)


def of_machine(machine: Machine, plan: Plan, version: str) -> list[GpuCores]:
    """Return the cores of each GPU as they are near it on a machine; the plan tells what is a socket to Slurm."""
    homes = [machine.home(gpu) for gpu in machine.gpus]
    cores = [fold(core_numbers(machine.cores, home.cpus)) if home else "" for home in homes]
    return _finish(cores, plan, version)


def _finish(cores: Sequence[str], plan: Plan, version: str) -> list[GpuCores]:
    """Make of NUMA nodes' cores what Slurm takes; where one GPU has none and others have some, it has all.

    Slurm logs an error when only some of the records of a node have Cores.
    """
    every = fold(range(plan.cores))
    found = []
    for gpu, near in enumerate(cores):
        if near:
            wide = widen(near, plan.sockets, plan.cores_per_socket, version)
            why = f"Slurm {version} takes whole sockets, and its NUMA node has {near} alone" if wide != near else ""
            found.append(GpuCores(gpu, wide, why))
        else:
            others = any(cores)
            found.append(GpuCores(gpu, every if others else "", "its NUMA node is unknown" if others else ""))
    return found
