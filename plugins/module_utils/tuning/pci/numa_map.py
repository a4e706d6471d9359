# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the NUMA nodes of GPUs, NICs and cores with the profile, and write a profile from a machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...common.cpulists import core_numbers, fold, parse
from ...common.finding import Finding
from .topology_model import Machine, PciDevice

_UNKNOWN = (
    "the firmware does not report where the device is: check for a BIOS update, or an ACPI SRAT or _PXM problem in dmesg; "
    "in a virtual machine let the hypervisor pass the NUMA topology"
)
_MOVED = "correct `numa` of the profile if all its nodes are like this, or put the card into the slot that the other nodes use"


@dataclass(frozen=True)
class PlannedNode:
    """NUMA node with CPUs in the profile: Slurm's core ids, indices of GPUs by PCI address, names of NICs."""

    cores: str
    gpus: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProfileTopology:
    """Topology in a profile. `nics` are all names; `rails` the names of the compute fabric, in the order of rails.

    `gpus` is None if the profile has no GPUs; `numa` is empty if it has no map.
    """

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    gpus: int | None = None
    numa: tuple[PlannedNode, ...] = ()
    nics: tuple[str, ...] = ()
    rails: tuple[str, ...] = ()

    @property
    def cores(self) -> int:
        """Return the number of cores."""
        return self.sockets * self.cores_per_socket


def plan_from(data: Mapping[str, Any]) -> ProfileTopology:
    """Return the plan from a dictionary of plugin_utils/tuning/numa_plan.py."""
    nodes = tuple(PlannedNode(node["cores"], tuple(node["gpus"]), tuple(node["nics"])) for node in data["numa"])
    return ProfileTopology(
        **{key: data[key] for key in ("sockets", "cores_per_socket", "threads_per_core", "gpus")},
        numa=nodes,
        nics=tuple(data["nics"]),
        rails=tuple(data["rails"]),
    )


def compare(plan: ProfileTopology, machine: Machine) -> list[Finding]:
    """Return the differences of a machine from its plan; the list may be empty.

    GPUs are compared one by one only if their number is as planned, and devices only if the number of NUMA nodes is as planned: otherwise
    each would differ without being the cause.
    """
    rows = [*_processors(plan, machine), *_gpu_count(plan, machine), *_nodes(plan, machine)]
    comparable = len(plan.numa) == len(machine.cpu_nodes)
    if comparable and plan.gpus == len(machine.gpus):
        for index, gpu in enumerate(machine.gpus):
            wanted = next((number for number, node in enumerate(plan.numa) if index in node.gpus), None)
            rows += _place(machine, f"GPU {index} at {gpu.address}", wanted, gpu)
    return [*rows, *_nics(plan, machine, comparable)]


def _processors(plan: ProfileTopology, machine: Machine) -> Iterator[Finding]:
    """Compare sockets, cores and threads; Slurm may treat a NUMA node or a cache as a socket, so sockets may be divided."""
    threads = max((len(core.cpus) for core in machine.cores), default=0)
    divided = machine.sockets and plan.sockets % machine.sockets == 0
    if plan.cores == len(machine.cores) and divided and plan.threads_per_core == threads:
        return
    found = f"{machine.sockets} sockets, {len(machine.cores)} cores, {threads} threads per core"
    fix = "set SMT and the cores per socket in the BIOS, or correct the profile by what `slurmd -C` prints"
    wanted = f"{plan.sockets} sockets, {plan.cores} cores, {plan.threads_per_core} threads per core"
    yield Finding("processors", "processors", wanted, found, fix, reboot=True)


def _gpu_count(plan: ProfileTopology, machine: Machine) -> Iterator[Finding]:
    if plan.gpus in (None, len(machine.gpus)):
        return
    addresses = ", ".join(gpu.address for gpu in machine.gpus)
    fix = "a missing GPU is not on the PCI bus: power the node off and on, then check dmesg and the BMC's log"
    if len(machine.gpus) > (plan.gpus or 0):
        fix = "correct `gpus.count` of the profile, or give the node another profile"
    yield Finding(
        "gpu-count",
        "GPUs",
        str(plan.gpus),
        f"{len(machine.gpus)}{': ' if addresses else ''}{addresses}",
        fix,
        reboot=True,
    )


def _nodes(plan: ProfileTopology, machine: Machine) -> Iterator[Finding]:
    """Compare the nodes that have CPUs: planned and found ones, each in their order."""
    nodes = machine.cpu_nodes
    if not plan.numa:
        return
    if len(plan.numa) != len(nodes):
        fix = (
            "set Nodes Per Socket (NPS, EPYC) or Sub-NUMA Clustering (SNC, Xeon) in the BIOS as on the other nodes of the "
            "profile, or correct `numa` of the profile"
        )
        yield Finding("numa-nodes", "NUMA nodes with CPUs", str(len(plan.numa)), str(len(nodes)), fix, reboot=True)
        return
    for number, (wanted, found) in enumerate(zip(plan.numa, nodes)):
        have, want = fold(core_numbers(machine.cores, found.cpus)), fold(parse(wanted.cores))
        if have != want:
            fix = "correct `numa` of the profile; its cores are Slurm's numbers, counted socket by socket"
            yield Finding("numa-cores", f"cores of NUMA node {number}", want, have, fix)


def _nics(plan: ProfileTopology, machine: Machine, comparable: bool) -> Iterator[Finding]:
    named = {name: nic for nic in machine.nics for name in nic.names}
    wanted_at = {name: number for number, node in enumerate(plan.numa) for name in node.nics}
    planned = list(dict.fromkeys([*plan.nics, *wanted_at]))
    others = [nic for nic in machine.nics if nic.rdma and not set(nic.names).intersection(planned)]
    for name in planned:
        if name not in named:
            yield _missing(name, ", ".join(f"{nic.rdma[0]} at {nic.address}" for nic in others))
        elif comparable:
            yield from _place(machine, f"NIC {name} at {named[name].address}", wanted_at.get(name), named[name])


def _missing(name: str, others: str) -> Finding:
    found = f"unknown name; not in the profile: {others}" if others else "unknown name"
    fix = (
        "load its driver (mlx5_core, mlx5_ib) and check dmesg; if udev gave it another name, keep the names by "
        "persistent-naming rules or correct the profile"
    )
    return Finding("nic", f"NIC {name}", "present", found, fix)


def _place(machine: Machine, what: str, wanted: int | None, device: PciDevice) -> Iterator[Finding]:
    """Compare the place of a device; `wanted` counts the nodes that have CPUs, null is not compared."""
    if wanted is None:
        return
    home = machine.home(device)
    if home is None:
        yield Finding("numa-place", what, f"NUMA node {wanted}", "unknown (-1)", _UNKNOWN, reboot=True)
    elif (found := machine.cpu_nodes.index(home)) != wanted:
        yield Finding("numa-place", what, f"NUMA node {wanted}", f"NUMA node {found}", _MOVED)


def record(machine: Machine, nics: Collection[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """Return a machine as keys of a profile, ready for YAML, and the list of unknown values.

    NICs with a name in `nics` are recorded under that name; without names, all that have RDMA.

    The keys are sockets, cores_per_socket, threads_per_core and numa. A cluster file has all GPUs in `numa` or none, so if one place is
    unknown, all are left out.
    """
    unknown = [f"GPU {index} at {gpu.address}" for index, gpu in enumerate(machine.gpus) if machine.home(gpu) is None]
    nodes: list[dict[str, Any]] = []
    for node in machine.cpu_nodes:
        section: dict[str, Any] = {"cores": fold(core_numbers(machine.cores, node.cpus))}
        gpus = [index for index, gpu in enumerate(machine.gpus) if machine.home(gpu) == node]
        if gpus and not unknown:
            section["gpus"] = fold(gpus)
        names = [_name(nic.names, nics) for nic in machine.nics if machine.home(nic) == node and (nics or nic.rdma)]
        if any(names):
            section["nics"] = [name for name in names if name]
        nodes.append(section)
    unknown += [f"NIC {nic.names[0]} at {nic.address}" for nic in machine.nics if machine.home(nic) is None]
    problems = [f"{what}: its NUMA node is unknown (-1); {_UNKNOWN}" for what in unknown]
    threads = max((len(core.cpus) for core in machine.cores), default=1)
    per_socket = len(machine.cores) // max(machine.sockets, 1)
    if per_socket * machine.sockets != len(machine.cores):
        problems.append(f"{len(machine.cores)} cores are not equally divided among {machine.sockets} sockets")
    shape = {"sockets": machine.sockets, "cores_per_socket": per_socket, "threads_per_core": threads}
    return {**shape, "numa": nodes}, problems


def _name(names: Collection[str], wanted: Collection[str]) -> str | None:
    return next((name for name in names if not wanted or name in wanted), None)
