# SPDX-License-Identifier: GPL-3.0-or-later
"""The table with the versions of a lock instead, and a set of packages with exact versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import matches, without_epoch

from ..gpu_stack import driver_versions
from ..gpu_stack.resolve import Stack, StackPackage
from ..gpu_stack.stack_model import (
    FLAVOURS,
    UNCOUPLED,
    CudaOffer,
    Driver,
    Extra,
    GpuDirect,
    Nccl,
    PackageNames,
    StackTable,
)
from . import package_names
from .lock_document import LockedSource

_DRIVER = re.compile(r"(?:[0-9]+:)?(?P<version>[0-9]{3,4}\.[0-9]+(?:\.[0-9]+)?)-")
_NCCL = re.compile(r"(?P<version>[0-9]+\.[0-9]+\.[0-9]+)-[0-9]+\+cuda(?P<cuda>[0-9]+)\.[0-9]+")
_UPSTREAM = re.compile(r"(?:[0-9]+:)?(?P<version>[0-9]+(?:\.[0-9]+)*)-")
# Parts of a set whose packages are all in the repositories of the source.
_LOCKED_PARTS = ("kernel", "driver", "fabric", "cuda", "toolkit", "dcgm")


def table_of(base: StackTable, locked: LockedSource, system: str, source: str, architecture: str) -> StackTable:
    """Return the table with the drivers, toolkits, DCGM, NCCL and container toolkits of a lock for one source on one system.

    What the lock lacks altogether, such as a container toolkit that no profile had, is as in the table.
    """
    others = tuple(one for one in base.drivers if one.source != source or system not in one.systems)
    own = tuple(_drivers(base, locked, system, source, architecture))
    # The index says what an architecture has.
    repositories = tuple(replace(row, least={}) if row.source == source else row for row in base.repositories)
    offers = tuple(_offer(one, locked) if one.source == source and system in one.systems else one for one in base.cuda)
    return replace(
        base,
        repositories=repositories,
        drivers=(*others, *own),
        cuda=offers,
        dcgm=_extra(base.dcgm, locked),
        toolkit=_extra(base.toolkit, locked),
        nccl=_nccl(base.nccl, locked),
        gpudirect=tuple(
            _direct(row, locked, base.systems[system].family)
            if source in row.sources and system in row.systems
            else row
            for row in base.gpudirect
        ),
    )


def missing(stack: Stack, locked: LockedSource) -> list[StackPackage]:
    """Return the packages of a set that the lock does not have, which are in the repositories of its source."""
    return [
        one
        for one in stack.packages
        if one.part in _LOCKED_PARTS and one.version != "*" and not _fitting(locked, one.name, one.version)
    ]


def exact(stack: Stack, locked: LockedSource) -> Stack:
    """Return a set with the exact versions of a lock. What no repository of the source has, such as headers, stays as it is."""
    coupled = _coupled(stack, locked)

    def version(name: str, wanted: str) -> str:
        fitting = _fitting(locked, name, wanted)
        same = [one for one in fitting if without_epoch(one) == coupled]
        return (same or fitting or [wanted])[0]

    packages = tuple(replace(one, version=version(one.name, one.version)) for one in stack.packages)
    pinned = {name: version(name, wanted) for name, wanted in stack.pinned}
    pinned |= {one.name: one.version for one in packages if one.version != "*"}
    components = {
        name: versions[0]
        for name, versions in locked.packages.items()
        if name not in pinned and any(re.fullmatch(_glob(one), name) for one in stack.components)
    }
    return replace(
        stack,
        packages=packages,
        gpudirect=tuple(
            replace(one, sources=tuple((name, version(name, wanted)) for name, wanted in one.sources))
            for one in stack.gpudirect
        ),
        pinned=tuple(pinned.items()),
        # Patterns stay for what a later package brings; apt and dnf take the first line that names a package.
        component_versions=tuple(components.items()),
    )


def _glob(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", ".*")


def _fitting(locked: LockedSource, name: str, wanted: str) -> list[str]:
    """Return the versions that match a version or a pattern, the newest first."""
    return [one for one in locked.packages.get(name, ()) if matches(one, wanted) or _is_release_of(one, wanted)]


def _is_release_of(version: str, wanted: str) -> bool:
    """Return whether a version of an rpm is the requested one with the name of a system behind it: 4.5.3-1.el9."""
    return "*" not in wanted and version.startswith(f"{wanted}.el")


def _coupled(stack: Stack, locked: LockedSource) -> str:
    """Return the newest version, without epoch, that all packages of kernel module and driver have; "": no version is common."""
    offered = [
        [without_epoch(found) for found in _fitting(locked, one.name, one.version)]
        for one in stack.packages
        if one.part in ("kernel", "driver")
    ]
    return next((one for one in offered[0] if all(one in rest for rest in offered[1:])), "") if offered else ""


def _drivers(base: StackTable, locked: LockedSource, system: str, source: str, architecture: str) -> Iterator[Driver]:
    known = {one.version: one for one in base.drivers if one.source == source and system in one.systems}
    for row in base.names:
        if row.source != source or system not in row.systems:
            continue
        for version in _versions_of(row, locked):
            flavours = tuple(one for one in FLAVOURS if not _lacking(row, one, version, locked, architecture))
            if flavours:
                lacks = dict(_lacks(row, flavours, version, locked, architecture))
                # What the table knows of this version stays true, such as an empty package.
                lacks |= known[version].lacks if version in known else {}
                own = {name: locked.packages[name][0] for name in row.support if name in locked.packages}
                yield Driver(source=source, systems=(system,), version=version, flavours=flavours, own=own, lacks=lacks)


def _versions_of(row: PackageNames, locked: LockedSource) -> list[str]:
    """Return the driver versions of the first package of user space, of the branches of this row of names."""
    name_of = package_names.filled(row.driver[0])
    found = {
        match["version"]
        for name, versions in locked.packages.items()
        if name_of.match(name)
        for match in map(_DRIVER.match, versions)
        if match
    }
    return sorted(
        (one for one in found if row.least <= driver_versions.branch(one) < row.below), key=driver_versions.numbers
    )


def _lacking(row: PackageNames, flavour: str, version: str, locked: LockedSource, architecture: str) -> list[str]:
    """Return the packages of kernel module and user space that the lock does not have in this version."""
    absent = row.absent.get(architecture, ())
    names = [one for one in (*row.kernel[flavour], *row.driver) if one not in absent]
    own = [name for name in row.support if name not in locked.packages]
    return [*_without(names, version, locked, row.epoch), *own]


def _without(names: Iterable[str], version: str, locked: LockedSource, epoch: str = "") -> list[str]:
    branch = str(driver_versions.branch(version))
    full = [name.format(branch=branch, version=version, kernel="") for name in names]
    return [name for name in full if not _fitting(locked, name, f"{epoch}{version}-*")]


def _lacks(
    row: PackageNames, flavours: tuple[str, ...], version: str, locked: LockedSource, architecture: str
) -> Iterator[tuple[str, str]]:
    for flavour in FLAVOURS:
        if flavour not in flavours:
            yield flavour, _reason(_lacking(row, flavour, version, locked, architecture), version)
    for part, names in row.fabric.items():
        if part not in UNCOUPLED:
            # The fabric's rpms have no epoch, as the driver's have.
            found = _without(names, version, locked)
            if found:
                yield part, _reason(found, version)


def _reason(names: list[str], version: str) -> str:
    return f"its index has no {', '.join(names)} of {version}"


def _offer(offer: CudaOffer, locked: LockedSource) -> CudaOffer:
    """Return the toolkits of a lock: NVIDIA's by the name of their package, a distribution's by its version."""
    found: dict[tuple[int, ...], tuple[str, dict[str, str]]] = {}
    for name, versions in locked.packages.items():
        match = package_names.TOOLKIT.match(name)
        if match:
            version = f"{match[1]}.{match[2]}"
            found[driver_versions.numbers(version)] = (version, {name: versions[0]})
    if found:
        return replace(offer, versions=dict(found[key] for key in sorted(found)))
    versions_of: dict[str, Mapping[str, str]] = {}
    for version, packages in offer.versions.items():
        first = next(iter(packages))
        fits = [one for one in locked.packages.get(first, ()) if one.startswith(f"{version}.")]
        rest = {name: locked.packages[name][0] for name in packages if name in locked.packages}
        if fits:
            versions_of[version] = {**rest, first: fits[0]}
    return replace(offer, versions=versions_of)


def _extra(extra: Extra, locked: LockedSource) -> Extra:
    matched = map(_UPSTREAM.match, locked.packages.get(extra.packages[0], ()))
    found = sorted({match["version"] for match in matched if match}, key=driver_versions.numbers)
    return replace(extra, versions=tuple(found)) if found else extra


def _direct(row: GpuDirect, locked: LockedSource, family: str) -> GpuDirect:
    names = row.packages.get(family, ())[:1] if row.versions else ()
    found = [version for name in names for version in locked.packages.get(name, ())]
    return replace(row, versions=tuple(reversed(found))) if found else row


def _nccl(nccl: Nccl, locked: LockedSource) -> Nccl:
    found: dict[str, dict[str, str]] = {}
    for names in nccl.packages.values():
        for version in locked.packages.get(names[0], ()):
            match = _NCCL.match(version)
            if match:
                # The newest first, so the one that is built with the latest CUDA of this major stays.
                found.setdefault(match["version"], {}).setdefault(match["cuda"], version)
    ordered = sorted(found, key=driver_versions.numbers)
    return replace(nccl, versions={one: found[one] for one in ordered}) if found else nccl
