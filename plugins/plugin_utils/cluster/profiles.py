# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware profiles, checked against themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, expand
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.memory.memory_floor import (
    MEBIBYTES,
    Pages,
    excesses,
)

from .metal.bare_metal import metal_of
from .model import Gpus, Nic, Numa, Profile, ProfileHealth
from .schema.fields import Mistakes, Path

# Hardware threads that cores have.
_THREADS = (1, 2, 4, 8, 16)
# Slurm keeps the CPUs of a node in 16 bits, of which the largest values mean something else.
_MOST_CPUS = 65_000


def profiles_of(data: Mapping[str, Any], rails: Mapping[str, int | None], mistakes: Mistakes) -> dict[str, Profile]:
    """Return profiles by name; `rails` is fabric -> how many it has, if it says, in the order of the file."""
    return {name: _profile(name, profile, rails, mistakes) for name, profile in data.items()}


def numbers(text: str | None, path: Path, mistakes: Mistakes) -> tuple[int, ...]:
    """Expand number ranges such as 0-3,8.

    >>> numbers("0-2,5", (), Mistakes({}))
    (0, 1, 2, 5)
    """
    try:
        return tuple(int(number) for number in expand(f"[{text}]")) if text else ()
    except HostlistError as error:
        mistakes.add(path, str(error))
        return ()


def _profile(name: str, data: Mapping[str, Any], rails: Mapping[str, int | None], mistakes: Mistakes) -> Profile:
    path: Path = ("profiles", name)
    stated = data["sockets"] and data["cores_per_socket"]
    cores = data["sockets"] * data["cores_per_socket"] if stated else None
    nics = tuple(
        _nic(nic, fabric_of_nic(nic, (*path, "nics", number), list(rails), mistakes))
        for number, nic in enumerate(data["nics"])
        if nic and nic["name"]
    )
    _check_nics(path, nics, rails, mistakes)
    numa = _numa(path, data["numa"], cores, [nic.name for nic in nics], mistakes)
    memory = data["memory_mib"] or 0
    reserved = data["reserved_memory_mib"]
    profile = Profile(
        name=name,
        gpus=_gpus(path, data["gpus"], numa, cores, mistakes) if data["gpus"] else None,
        sockets=data["sockets"] or 1,
        cores_per_socket=data["cores_per_socket"] or 1,
        threads_per_core=data["threads_per_core"] or 1,
        memory_mib=memory,
        reserved_memory_mib=memory // 50 if reserved is None else reserved,
        hugepages={size: count for size, count in data["hugepages"].items() if count},
        numa=numa,
        nics=nics,
        features=tuple(feature for feature in data["features"] if feature),
        nvlink_domain=data["nvlink_domain"],
        system_cores=data["system_cores"] or 0,
        boot=(data["boot"] or {}).get("tokens") or "loader",
        health=_health(data["health"]),
        metal=metal_of(path, data, mistakes),
    )
    _check_processors(profile, path, mistakes)
    _check_pages(profile, path, mistakes)
    _check_memory(profile, path, mistakes)
    _check_system_cores(profile, bool(stated), path, mistakes)
    return profile


def fabric_of_nic(nic: Mapping[str, Any], path: Path, fabrics: Sequence[str], mistakes: Mistakes) -> str:
    """Return the fabric of a NIC, "" for the first; an unknown one is noted."""
    name = nic["fabric"]
    if not name or name in fabrics[:1]:
        return ""
    # A section that could not be read is a mistake of its own.
    if name not in fabrics and ("fabrics", name) not in mistakes.lines:
        mistakes.unknown((*path, "fabric"), "fabric", name, fabrics)
    return str(name)


def _nic(nic: Mapping[str, Any], fabric: str) -> Nic:
    texts: dict[str, Any] = {key: nic[key] or "" for key in ("pci", "network", "fabric_name", "speed", "width")}
    rails = {"rail": None, "own_rail": nic["rail"]} if fabric else {"rail": nic["rail"]}
    return Nic(nic["name"], fabric=fabric, **rails, **texts)


def _check_processors(profile: Profile, path: Path, mistakes: Mistakes) -> None:
    """Find numbers of processors that no machine has, or that Slurm cannot count."""
    if profile.threads_per_core not in _THREADS:
        text = f"{profile.threads_per_core} is not allowed. Allowed: {', '.join(map(str, _THREADS))}, as `slurmd -C` prints it."
        mistakes.add((*path, "threads_per_core"), text)
    if profile.cpus > _MOST_CPUS:
        text = f"sockets x cores_per_socket x threads_per_core is {profile.cpus}. The most that Slurm counts is {_MOST_CPUS}."
        mistakes.add((*path, "cores_per_socket"), text)


def _check_system_cores(profile: Profile, stated: bool, path: Path, mistakes: Mistakes) -> None:
    """Find a NUMA node that would have no core for jobs."""
    if not stated or not profile.system_cores or any(not node.cores for node in profile.numa):
        return
    try:
        least = min(map(len, profile.numa_cores))
    except HostlistError:
        return  # which is a mistake that is told already
    if profile.system_cores >= least:
        what = f"{profile.system_cores} leaves no core for jobs of a NUMA node that has {least}. Allowed: 0 to {least - 1}."
        mistakes.add((*path, "system_cores"), what)


def _check_pages(profile: Profile, path: Path, mistakes: Mistakes) -> None:
    """Find huge pages that are said twice, or that the NUMA nodes cannot have evenly."""
    if profile.hugepages and any(node.hugepages for node in profile.numa):
        mistakes.add((*path, "hugepages"), "the NUMA nodes have their own `hugepages`. Keep one of the two.")
        return
    nodes = len(profile.numa) or profile.sockets
    for size, count in profile.hugepages.items():
        if count % nodes:
            near = (count // nodes * nodes, (count // nodes + 1) * nodes)
            mistakes.add(
                (*path, "hugepages", size),
                f"{count} pages are not the same number on each of {nodes} NUMA nodes. Allowed: such as {near[0]} or {near[1]}, or "
                "`hugepages` of each entry of `numa`.",
            )


def _check_memory(profile: Profile, path: Path, mistakes: Mistakes) -> None:
    """Find a reserve that leaves nothing for jobs, and huge pages that leave a NUMA node too little to boot with."""
    reserve, memory = profile.reserved_memory_mib, profile.memory_mib
    if not memory:
        return  # which is a mistake that is told already
    if reserve >= memory:
        mistakes.add(
            (*path, "memory_mib"), f"the reserve ({reserve} MiB) takes all of {memory} MiB: nothing is left for jobs."
        )
        return
    own, nodes = any(node.hugepages for node in profile.numa), len(profile.numa) or profile.sockets
    wanted = [
        Pages(node, size, count)
        for size in MEBIBYTES
        for node, count in enumerate(profile.node_pages(size))
        if own or node == 0  # the others have the same
    ]
    # The file states no memory of a single NUMA node.
    found = list(excesses(dict.fromkeys(range(nodes), memory // nodes), wanted, reserve))
    if not found and profile.hugepages_mib + reserve >= memory:
        taken = f"huge pages ({profile.hugepages_mib} MiB) and the reserve ({reserve} MiB)"
        mistakes.add((*path, "memory_mib"), f"{taken} take all of {memory} MiB: nothing is left for jobs.")
    for one in found:
        size, of_all = one.pages.size, 1 if own else nodes
        where = ("numa", one.pages.node, "hugepages", size) if own else ("hugepages", size)
        asked = f"with {one.pages.count * of_all} pages of {size} a NUMA node has {one.asked} MiB in huge pages"
        has = f"It has {one.memory} MiB (memory_mib over {nodes} NUMA nodes) and must keep {one.floor} MiB without them"
        mistakes.add((*path, *where), f"{asked}. {has}. Allowed: at most {one.most * of_all}.")


def _gpus(path: Path, data: Mapping[str, Any], numa: tuple[Numa, ...], cores: int | None, mistakes: Mistakes) -> Gpus:
    model, count, detect = data["model"] or "", data["count"], data["detect"] or "explicit"
    if not count:
        # There are GPUs, but not how many: what selects them by their model is right.
        return Gpus(model, 0, (), (), detect)
    devices = data["devices"] or (f"/dev/nvidia[0-{count - 1}]" if count > 1 else "/dev/nvidia0")
    files = _devices(devices, count, (*path, "gpus", "devices"), mistakes)
    near_numa = _numa_cores(path, count, numa, mistakes)
    if not data["cores"]:
        return Gpus(model, count, files, near_numa, detect)
    where: Path = (*path, "gpus", "cores")
    if any(near_numa):
        mistakes.add(where, "the cores of each GPU follow from `numa` already. Keep one of the two.")
    if len(data["cores"]) != count:
        mistakes.add(where, f"has {len(data['cores'])} entries, and 'count' is {count}: one entry for each GPU.")
    for number, text in enumerate(data["cores"]):
        _check_cores(numbers(text, (*where, number), mistakes), cores, (*where, number), mistakes)
    return Gpus(model, count, files, tuple(text or "" for text in data["cores"]), detect)


def _devices(text: str, count: int, path: Path, mistakes: Mistakes) -> tuple[str, ...]:
    try:
        files = tuple(expand(text))
    except HostlistError as error:
        mistakes.add(path, str(error))
        return ()
    if len(files) != count:
        mistakes.add(path, f"{text!r} are {len(files)} files, and 'count' is {count}.")
    if wrong := [file for file in files if not file.startswith("/dev/")]:
        mistakes.add(path, f"{wrong[0]!r} is not a device file. Allowed: such as /dev/nvidia[0-7].")
    if len(set(files)) != len(files):
        mistakes.add(path, f"{text!r} names a file twice.")
    return files


def _numa_cores(path: Path, count: int, numa: tuple[Numa, ...], mistakes: Mistakes) -> tuple[str, ...]:
    """Return the cores of each GPU as its NUMA node has them."""
    cores = [""] * count
    for number, node in enumerate(numa):
        for gpu in node.gpus:
            if gpu < count:
                cores[gpu] = node.cores or "unknown"
            else:
                where = (*path, "numa", number, "gpus")
                mistakes.add(where, f"there is no GPU {gpu}: 'count' is {count}. Allowed: 0 to {count - 1}.")
    if any(cores) and not all(cores):
        without = ", ".join(str(gpu) for gpu, ids in enumerate(cores) if not ids)
        mistakes.add((*path, "numa"), f"GPU {without} is at no NUMA node. Name every GPU or none.")
    return tuple(cores)


def _numa(path: Path, data: list[Any], cores: int | None, nics: list[str], mistakes: Mistakes) -> tuple[Numa, ...]:
    nodes = []
    seen: dict[str, set[Any]] = {"cores": set(), "gpus": set(), "nics": set()}
    for number, node in enumerate(data):
        where: Path = (*path, "numa", number)
        if not node:
            continue
        found: dict[str, tuple[Any, ...]] = {
            key: numbers(node[key], (*where, key), mistakes) for key in ("cores", "gpus")
        }
        found["nics"] = tuple(nic for nic in node["nics"] if nic)
        for key, ids in found.items():
            for one in sorted(seen[key].intersection(ids))[:1]:
                mistakes.add((*where, key), f"{key} {one} is at another NUMA node already.")
            seen[key].update(ids)
        _check_cores(found["cores"], cores, (*where, "cores"), mistakes)
        for nic in found["nics"]:
            if nics and nic not in nics:
                mistakes.unknown((*where, "nics"), "NIC", nic, nics)
        pages = tuple((size, count) for size, count in node["hugepages"].items() if count)
        nodes.append(Numa(node["cores"] or "", found["gpus"], found["nics"], pages))
    return tuple(nodes)


def _check_cores(ids: tuple[int, ...], cores: int | None, path: Path, mistakes: Mistakes) -> None:
    if cores and (beyond := [core for core in ids if core >= cores]):
        allowed = f"sockets x cores_per_socket is {cores}. Allowed: 0 to {cores - 1}."
        mistakes.add(path, f"there is no core {beyond[0]}: {allowed}")


def _check_nics(path: Path, nics: tuple[Nic, ...], rails: Mapping[str, int | None], mistakes: Mistakes) -> None:
    path = (*path, "nics")
    names = [nic.name for nic in nics]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        mistakes.add(path, f"NIC {name!r} is described twice.")
    shown = [nic.fabric_name or nic.name for nic in nics]
    for name in dict.fromkeys(name for name in shown if shown.count(name) > 1 and names.count(name) < 2):
        mistakes.add(path, f"two NICs have the name {name!r} in the fabric. Give each its own `fabric_name`.")
    places = [nic.pci for nic in nics if nic.pci]
    for place in dict.fromkeys(place for place in places if places.count(place) > 1):
        mistakes.add(path, f"two NICs are at the PCI address {place}.")
    for nic in nics:
        if nic.network and nic.rail is not None:
            what = f"NIC {nic.name!r} has the rail {nic.rail}, whose network has its address."
            mistakes.add(path, f"{what} Remove `network`, or `rail`.")
    used = [nic.network for nic in nics if nic.network]
    for network in dict.fromkeys(network for network in used if used.count(network) > 1):
        mistakes.add(path, f"two NICs have their addresses in the network {network!r}. Give each its own network.")
    first = next(iter(rails), "")
    for fabric in dict.fromkeys(nic.fabric for nic in nics):
        own = [nic.own_rail if fabric else nic.rail for nic in nics if nic.fabric == fabric]
        found, stated = sorted(rail for rail in own if rail is not None), rails.get(fabric or first)
        wanted = len(found) if stated is None else stated
        if found and found != list(range(wanted)):
            have, of = ", ".join(map(str, found)), f" of fabric {fabric}" if fabric else ""
            what = "do not match the fabric" if stated is not None else "are not one NIC each, counted from 0"
            mistakes.add(
                path, f"the rails {have}{of} {what}. Allowed: one NIC for each of the rails 0 to {wanted - 1}."
            )


def _health(data: Mapping[str, Any] | None) -> ProfileHealth:
    """Return what jobs need on nodes of a profile."""
    if data is None:
        return ProfileHealth()
    return ProfileHealth(data["rails_needed"], data["nvlink"], tuple(filter(None, data["mounts"])))
