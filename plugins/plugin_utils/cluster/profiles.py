# SPDX-License-Identifier: GPL-3.0-or-later
"""Hardware profiles, checked against themselves."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import HostlistError, expand

from .fields import Mistakes, Path
from .model import Gpus, Nic, Numa, Profile


def profiles_of(data: dict[str, Any], fabric: dict[str, Any], mistakes: Mistakes) -> dict[str, Profile]:
    """Return profiles by name."""
    rails = fabric["rails"] if fabric else None
    return {
        name: _profile(name, profile, rails, mistakes) for name, profile in data.items() if isinstance(profile, dict)
    }


def numbers(text: Any, path: Path, mistakes: Mistakes) -> tuple[int, ...]:
    """Expand number ranges such as 0-3,8.

    >>> numbers("0-2,5", (), Mistakes({}))
    (0, 1, 2, 5)
    """
    if not isinstance(text, str):
        return ()
    try:
        return tuple(int(number) for number in expand(f"[{text}]"))
    except (HostlistError, ValueError):
        mistakes.add(path, f"{text!r} is no range of numbers, such as 0-3,8.")
        return ()


def _profile(name: str, data: dict[str, Any], rails: int | None, mistakes: Mistakes) -> Profile:
    path: Path = ("profiles", name)
    cores = (data["sockets"] or 1) * (data["cores_per_socket"] or 1)
    numa = _numa(path, data["numa"] or [], cores, mistakes)
    nics = tuple(Nic(nic["name"], nic["rail"]) for nic in data["nics"] or [] if nic)
    _check_rails(path, nics, rails, mistakes)
    memory = data["memory_mib"] or 0
    reserved = data["reserved_memory_mib"]
    profile = Profile(
        name=name,
        gpus=_gpus(path, data["gpus"], numa, mistakes) if data["gpus"] and data["gpus"]["model"] else None,
        sockets=data["sockets"] or 1,
        cores_per_socket=data["cores_per_socket"] or 1,
        threads_per_core=data["threads_per_core"] or 1,
        memory_mib=memory,
        reserved_memory_mib=memory // 50 if reserved is None else reserved,
        hugepages={size: count for size, count in data["hugepages"].items() if count},
        numa=numa,
        nics=nics,
        features=tuple(data["features"] or ()),
    )
    taken = profile.hugepages_mib + profile.reserved_memory_mib
    if memory and taken >= memory:
        mistakes.add(
            (*path, "memory_mib"), f"huge pages and reserve take {taken} MiB of {memory} MiB; nothing is left for jobs."
        )
    return profile


def _gpus(path: Path, data: dict[str, Any], numa: tuple[Numa, ...], mistakes: Mistakes) -> Gpus:
    count = data["count"] or 1
    path = (*path, "gpus")
    devices = data["devices"] or (f"/dev/nvidia[0-{count - 1}]" if count > 1 else "/dev/nvidia0")
    try:
        files = tuple(expand(devices))
    except HostlistError as error:
        mistakes.add((*path, "devices"), str(error))
        files = ()
    if files and len(files) != count:
        mistakes.add((*path, "devices"), f"{devices!r} are {len(files)} files, and 'count' is {count}.")
    cores = [""] * count
    for number, node in enumerate(numa):
        for gpu in node.gpus:
            if gpu >= count:
                mistakes.add((*path[:-1], "numa", number, "gpus"), f"there is no GPU {gpu}: 'count' is {count}.")
            else:
                cores[gpu] = node.cores
    if any(cores) and not all(cores):
        without = ", ".join(str(gpu) for gpu, ids in enumerate(cores) if not ids)
        mistakes.add((*path[:-1], "numa"), f"GPU {without} is at no NUMA node; name every GPU or none.")
    return Gpus(data["model"], count, files, tuple(cores), data["detect"])


def _numa(path: Path, data: list[Any], cores: int, mistakes: Mistakes) -> tuple[Numa, ...]:
    nodes = []
    seen: dict[str, set[int]] = {"cores": set(), "gpus": set()}
    for number, node in enumerate(data):
        where: Path = (*path, "numa", number)
        if not node:
            continue
        found = {key: numbers(node[key], (*where, key), mistakes) for key in ("cores", "gpus")}
        for key, ids in found.items():
            if twice := seen[key] & set(ids):
                mistakes.add((*where, key), f"{key} {min(twice)} is at two NUMA nodes.")
            seen[key] |= set(ids)
        if beyond := [core for core in found["cores"] if core >= cores]:
            mistakes.add((*where, "cores"), f"there is no core {beyond[0]}: sockets x cores_per_socket is {cores}.")
        nodes.append(Numa(node["cores"] or "", found["gpus"], tuple(node["nics"] or ())))
    return tuple(nodes)


def _check_rails(path: Path, nics: tuple[Nic, ...], rails: int | None, mistakes: Mistakes) -> None:
    path = (*path, "nics")
    names = [nic.name for nic in nics]
    for name in {name for name in names if names.count(name) > 1}:
        mistakes.add(path, f"NIC {name} is described twice.")
    found = sorted(nic.rail for nic in nics if nic.rail is not None)
    if found and len(set(found)) != len(found):
        mistakes.add(path, f"rails {found}: each rail has one NIC.")
    elif found and rails is not None and found != list(range(rails)):
        mistakes.add(path, f"rails {found} do not match the fabric, which has the rails 0 to {rails - 1}.")
