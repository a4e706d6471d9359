# SPDX-License-Identifier: GPL-3.0-or-later
"""Write profiles of the cluster file from the hardware of machines: one for all machines with equal hardware."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, fold

from .gpu_names import model_of

Hardware = Mapping[str, Any]
# Machines of one order differ by some MiB, which the firmware keeps.
_SAME_MEMORY = 0.02
_NO_MODEL = "gpu"
_INDENT = "  "


@dataclass(frozen=True)
class Recorded:
    """Machines with equal hardware; `hardware` is that of the machine with the least memory."""

    name: str
    hosts: tuple[str, ...]
    hardware: Hardware
    memory: tuple[tuple[str, int], ...]


def recorded(reports: Mapping[str, Hardware]) -> list[Recorded]:
    """Return the distinct hardware of machines by host name, the most frequent first.

    `reports` has the hardware by host, from module_utils/report/hardware.py.
    """
    groups: dict[str, list[str]] = {}
    for host, hardware in reports.items():
        groups.setdefault(json.dumps(comparable(hardware), sort_keys=True), []).append(host)
    alike = [part for hosts in groups.values() for part in _by_memory(hosts, reports)]
    alike.sort(key=len, reverse=True)
    used: Counter[str] = Counter()
    found = []
    for hosts in alike:
        name = _profile_name(reports[hosts[0]])
        used[name] += 1
        number = f"_{used[name]}" if used[name] > 1 else ""
        memory = tuple((host, reports[host]["memory_mib"] or 0) for host in hosts)
        found.append(Recorded(f"{name}{number}", tuple(hosts), reports[hosts[0]], memory))
    return found


def comparable(hardware: Hardware) -> dict[str, Any]:
    """Return what makes hardware distinct: a GPU's minor is the driver's choice at each boot, a rate that of a cable."""
    gpus = [{key: one[key] for key in one if key != "minor"} for one in hardware["gpus"]]
    nics = [{key: one[key] for key in one if key != "rate"} for one in hardware["nics"]]
    return {"shape": hardware["shape"], "gpus": gpus, "nics": nics, "container": hardware["container"]}


def _by_memory(hosts: Sequence[str], reports: Mapping[str, Hardware]) -> Iterator[list[str]]:
    """Yield the hosts in groups of nearly the same memory, the host with the least memory first."""
    ordered = sorted(hosts, key=lambda host: reports[host]["memory_mib"] or 0)
    group: list[str] = []
    for host in ordered:
        least = (reports[group[0]]["memory_mib"] or 0) if group else 0
        if group and (reports[host]["memory_mib"] or 0) > least * (1 + _SAME_MEMORY):
            yield group
            group = []
        group.append(host)
    if group:
        yield group


def _profile_name(hardware: Hardware) -> str:
    gpus = hardware["gpus"]
    return f"{_model(gpus)}x{len(gpus)}" if gpus else "cpu"


def _model(gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return the GRES type of GPUs: the model of the first, in letters that a type may have."""
    return (model_of(gpus[0]["name"]) or _NO_MODEL).replace("-", "_")


def rails(hardware: Hardware) -> list[str]:
    """Return the NICs that look like the compute fabric, in the order of their PCI addresses.

    They are of one device and link, the kind of which most share a PCI switch with a GPU; without any such, the kind with most ports of
    InfiniBand. Ethernet alone, without a GPU near it, is no reason: it may be storage.
    """
    kinds: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for nic in hardware["nics"]:
        if nic["rdma"]:
            kinds.setdefault((nic["vendor"], nic["device"], nic["link"]), []).append(nic)
    ranked = [
        ((sum(bool(nic["near_gpus"]) for nic in nics), len(nics) if link == "InfiniBand" else 0), nics)
        for (_vendor, _device, link), nics in kinds.items()
    ]
    best = max(ranked, key=lambda one: one[0], default=((0, 0), []))
    if best[0] == (0, 0):
        return []
    near = [nic for nic in best[1] if nic["near_gpus"]]
    return [nic["rdma"][0] for nic in near or best[1]]


def profiles_text(reports: Mapping[str, Hardware], unread: Mapping[str, str]) -> str:
    """Return the section `profiles` of a cluster file as YAML text, with comments about what a person must decide.

    `unread` has the reason by host for the machines without a report.
    """
    kinds = recorded(reports)
    lines = ["# Recorded from live machines. Read every comment that begins with DECIDE, then remove it.", "profiles:"]
    for number, one in enumerate(kinds):
        if number:
            lines += ["", *(f"{_INDENT}# {text}" for text in _differences(kinds[0], one))]
        lines += [f"{_INDENT}{line}" if line else "" for line in _profile(one)]
    if not kinds:
        lines[-1] = "profiles: {}"
    lines += [f"# {host}: no profile: {' '.join(why.split())}" for host, why in unread.items()]
    return "\n".join(lines) + "\n"


def _profile(one: Recorded) -> Iterator[str]:
    hardware = one.hardware
    shape = hardware["shape"]
    yield f"# {_folded(one.hosts)}"
    yield f"{one.name}: # DECIDE: the name of the profile"
    for line in _body(one, hardware, shape):
        yield f"{_INDENT}{line}"


def _body(one: Recorded, hardware: Hardware, shape: Mapping[str, Any]) -> Iterator[str]:
    if hardware["container"]:
        yield "# DECIDE: this is a container, which shows the hardware of its host."
    for problem in hardware["problems"]:
        yield f"# DECIDE: {' '.join(problem.split())}"
    if hardware["gpus"]:
        yield from _gpus(hardware["gpus"])
    for key in ("sockets", "cores_per_socket", "threads_per_core"):
        yield f"{key}: {max(int(shape[key]), 1)}"
    yield from _memory(one)
    if shape["numa"]:
        yield "numa:"
    for node in shape["numa"]:
        yield f"{_INDENT}- {_flow(node)}"
    yield from _nics(hardware)


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    kinds = Counter(_kind(gpu) for gpu in gpus)
    table = model_of(gpus[0]["name"])
    yield "gpus:"
    what = "; ".join(f"{count} x {kind}" for kind, count in kinds.items())
    why = "" if table else "DECIDE: the GPU table has no model of this name; "
    yield f"{_INDENT}model: {_model(gpus)} # {why}{what}"
    if len(kinds) > 1:
        yield f"{_INDENT}# DECIDE: the GPUs differ. A profile has one model."
    if "-" in table:
        yield f"{_INDENT}# With gpu_stack: its key `model` is {table}."
    yield f"{_INDENT}count: {len(gpus)}"
    minors = [gpu["minor"] for gpu in gpus]
    if None in minors:
        text = "the numbers of the device files are unknown without a driver; by default /dev/nvidia0 is the first PCI address"
        yield f"{_INDENT}# DECIDE: {text}."
    elif minors != list(range(len(gpus))):
        numbers = ",".join(map(str, minors))
        devices = f"/dev/nvidia[{numbers}]" if len(minors) > 1 else f"/dev/nvidia{numbers}"
        yield f"{_INDENT}# In the order of PCI addresses, as `numa.gpus`."
        yield f"{_INDENT}devices: {json.dumps(devices)}"


def _kind(gpu: Mapping[str, Any]) -> str:
    return f"{gpu['name'] or 'unknown'} ({gpu['vendor'][2:]}:{gpu['device'][2:]})"


def _memory(one: Recorded) -> Iterator[str]:
    amounts = sorted({amount for _host, amount in one.memory})
    if not amounts[0]:
        yield "memory_mib: 1024 # DECIDE: the memory could not be read; RealMemory of `slurmd -C`"
        return
    yield f"memory_mib: {amounts[0]} # compare with RealMemory of `slurmd -C`"
    if len(amounts) > 1:
        least = [host for host, amount in one.memory if amount == amounts[0]]
        yield f"# The least of its machines, on {_folded(least)}; the most is {amounts[-1]}."


def _nics(hardware: Hardware) -> Iterator[str]:
    chosen = rails(hardware)
    rdma = [nic for nic in hardware["nics"] if nic["rdma"]]
    if rdma:
        yield "nics:"
        if chosen:
            yield f"{_INDENT}# DECIDE: rails by the leaf that each cable leads to; here they follow the PCI addresses."
        yield f"{_INDENT}# DECIDE: add pci to a NIC that must keep its name when the kernel's order changes."
    for nic in rdma:
        name = nic["rdma"][0]
        entry = {"name": name, **({"rail": chosen.index(name)} if name in chosen else {})}
        yield f"{_INDENT}- {_flow(entry)} # {_nic_text(nic)}"
    for nic in hardware["nics"]:
        if not nic["rdma"]:
            yield f"# Without RDMA, not a NIC of the fabric: {', '.join(nic['interfaces'])}, {_nic_text(nic)}"


def _nic_text(nic: Mapping[str, Any]) -> str:
    """Return a NIC in words, for a comment."""
    near = nic["near_gpus"]
    parts = [
        nic["address"],
        nic["name"] or f"{nic['vendor'][2:]}:{nic['device'][2:]}",
        nic["link"] or "unknown link" if nic["rdma"] else "",
        nic["rate"],
        ", ".join(nic["interfaces"]) if nic["rdma"] else "",
        f"NUMA node {nic['numa']}" if nic["numa"] is not None else "unknown NUMA node",
        f"at the switch of GPU {', '.join(map(str, near))}" if near and nic["rdma"] else "",
    ]
    return "; ".join(" ".join(part.split()) for part in parts if part)


def _differences(first: Recorded, other: Recorded) -> Iterator[str]:
    """Yield in words how hardware differs from that of the first profile."""
    names = f"{other.name} differs from {first.name}"
    before, after = (dict(_facts(one)) for one in (first, other))
    for key in before:
        if before[key] != after[key]:
            yield f"{names}: {key}: {before[key]} there, {after[key]} here"


def _facts(one: Recorded) -> Iterator[tuple[str, str]]:
    hardware, shape = one.hardware, one.hardware["shape"]
    for key in ("sockets", "cores_per_socket", "threads_per_core"):
        yield key, str(shape[key])
    yield "memory_mib", str(hardware["memory_mib"])
    yield "cores of NUMA nodes", " | ".join(node["cores"] for node in shape["numa"])
    yield "GPUs", _counted(_kind(gpu) for gpu in hardware["gpus"])
    yield "places of GPUs", _places(hardware["gpus"])
    yield "NICs", _counted(nic["name"] or f"{nic['vendor'][2:]}:{nic['device'][2:]}" for nic in hardware["nics"])
    yield (
        "names of NICs",
        ", ".join("/".join([*nic["rdma"], *nic["interfaces"]]) for nic in hardware["nics"]) or "no NIC",
    )
    yield "places of NICs", _places(hardware["nics"])
    yield "links of NICs", ", ".join(nic["link"] or "-" for nic in hardware["nics"]) or "no NIC"
    yield "container", "yes" if hardware["container"] else "no"


def _counted(kinds: Iterator[str]) -> str:
    return ", ".join(f"{count} x {kind}" for kind, count in Counter(kinds).items()) or "no device"


def _places(devices: Sequence[Mapping[str, Any]]) -> str:
    return (
        ", ".join(f"{one['address']} ({'?' if one['numa'] is None else one['numa']})" for one in devices) or "no device"
    )


def _folded(hosts: Sequence[str]) -> str:
    try:
        return fold(hosts)
    except HostlistError:
        return ", ".join(hosts)


def _flow(entry: Mapping[str, Any]) -> str:
    """Return an entry as YAML on one line; JSON's texts and lists are YAML."""
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in entry.items()) + "}"
