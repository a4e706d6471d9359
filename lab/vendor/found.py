# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that NVIDIA's repositories are assumed to have: all packages that the resolver's table can name."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.paths import ROOT
from lab.shell import LabError

# The resolver is bedplate's own; the link tree makes it importable without an installed collection.
sys.path.insert(0, str(ROOT / "collections"))
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.driver_versions import numbers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import (
    Request,
    Stack,
    StackError,
    StackPackage,
    resolve,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.stack_model import (
    ARCHITECTURES,
    FLAVOURS,
    Driver,
    PackageNames,
    StackOrigin,
    StackTable,
)

__all__ = ["Found", "StackOrigin", "StackTable", "numbers", "packages", "table_with"]

SOURCE, CANONICAL = "nvidia", "canonical"
# How the versions of packages end; the table has patterns that end with -*.
_ENDS = {SOURCE: "1", CANONICAL: "0ubuntu0.24.04.1"}
# NVIDIA/yum-packaging-nvidia-kmod-common, and dkms.conf of 570.133.20 and 570.148.08.
_RENAMED_ON_EL = "570.148.08"
# Enough of them for a board with a fabric.
_GPUS = 8


@dataclass(frozen=True)
class Found:
    """A requested package.

    `upstream` is the version of what is in it; `branch` and `cuda` are the driver branch and the CUDA version to which it belongs.
    `flavour` and `dkms` are set for what brings a kernel module, with the other packages of its part in `with_kernel`.
    `streams` are dnf's module streams that have it.
    """

    name: str
    version: str
    part: str
    upstream: str
    branch: str = ""
    cuda: str = ""
    flavour: str = ""
    dkms: str = ""
    with_kernel: tuple[str, ...] = ()
    source: str = SOURCE
    streams: tuple[str, ...] = ()


def table_with(drivers: Sequence[str], systems: Sequence[str]) -> StackTable:
    """Return the table with drivers that it does not know, called and offered as its newest driver.

    Stand-ins are for the machine that builds them, so each GPU comes with the usual CPU there, for which sources have most.
    """
    table = stack_table.default()
    models = {name: dataclasses.replace(one, architecture=ARCHITECTURES[0]) for name, one in table.models.items()}
    table = dataclasses.replace(table, models=models)
    if not drivers:
        return table
    newest = {system: table.drivers_of(system, SOURCE)[-1] for system in systems}
    more = [
        dataclasses.replace(driver, systems=(system,), version=version)
        for version in drivers
        for system, driver in newest.items()
    ]
    return dataclasses.replace(table, drivers=(*table.drivers, *more))


def packages(system: str, drivers: Sequence[str], table: StackTable, source: str = SOURCE) -> list[Found]:
    """Return every package of these drivers (none: all of the table), and every CUDA, DCGM and toolkit of the table.

    LabError: the table has no such driver for this system.
    """
    known = {driver.version: driver for driver in table.drivers_of(system, source)}
    if unknown := sorted(set(drivers) - set(known)):
        raise LabError(
            f"no driver {', '.join(unknown)} of {source} is known for {system}; known: {', '.join(known) or 'none'}. "
            "Add an unknown driver to more_drivers."
        )
    # Rocky's packages name the release for which they were built; those of other parts do not.
    end = f".el{system.rpartition('-')[2]}" if table.systems[system].family == "rpm" else ""
    found: dict[tuple[str, str], Found] = {}
    for version in drivers or known:
        for made in _of_driver(system, known[version], table):
            one = dataclasses.replace(made, version=f"{made.version}{end if made.branch else ''}")
            before = found.setdefault((one.name, one.version), one)
            streams = tuple(dict.fromkeys((*before.streams, *one.streams)))
            found[one.name, one.version] = dataclasses.replace(before, streams=streams)
    return list(found.values())


def _of_driver(system: str, driver: Driver, table: StackTable) -> Iterator[Found]:
    names = table.names_of(system, driver.source, driver.branch)
    if names is None:
        raise AssertionError(f"the table was read, and has no names for {driver.version} on {system}")
    plain: dict[str, Request] = {}
    for model in _boards(table):
        for flavour in FLAVOURS:
            request = Request(system, driver.source, driver.version, (model,), gpu_count=_GPUS, module=flavour)
            if stack := _resolved(request, table):
                plain[table.models[model].generation.name] = request
                yield from _of_stack(stack, driver, names, flavour)
    # A generation takes some toolkits only: together they take all.
    for one_of_generation in plain.values():
        for request in _beside(one_of_generation, table):
            if stack := _resolved(request, table):
                of_cuda = "".join(request.cuda)
                beside = (one for one in stack.packages if one.part in ("cuda", "dcgm", "toolkit"))
                yield from (dataclasses.replace(_one(one, "", driver.source), cuda=of_cuda) for one in beside)


def _boards(table: StackTable) -> list[str]:
    """Return GPU models, one for each kind of fabric and generation: together they need every part."""
    kinds = {(one.board, one.generation.name, one.lowest): name for name, one in table.models.items()}
    return list(kinds.values())


def _beside(plain: Request, table: StackTable) -> Iterator[Request]:
    offer = table.cuda_of(plain.os, plain.source)
    for version in offer.versions if offer else ():
        yield dataclasses.replace(plain, cuda=(version,))
    for version in table.dcgm.versions:
        yield dataclasses.replace(plain, dcgm=version)
    for version, built in table.nccl.versions.items():
        for major in built:
            first = next((one for one in (offer.versions if offer else ()) if one.split(".")[0] == major), None)
            yield dataclasses.replace(plain, nccl=version, cuda=(first,) if first else ())
    for row in table.gpudirect:
        if row.versions and plain.source in row.sources and plain.os in row.systems:
            yield dataclasses.replace(plain, gpudirect=(row.name,))
    for version in table.toolkit.versions:
        yield dataclasses.replace(plain, toolkit=version)


def _resolved(request: Request, table: StackTable) -> Stack | None:
    try:
        return resolve(request, table)
    except StackError:
        return None


def _of_stack(stack: Stack, driver: Driver, names: PackageNames, flavour: str) -> Iterator[Found]:
    branch = str(driver.branch)
    kernel = [one for one in stack.packages if one.part == "kernel"]
    # A module that this driver does not have is pinned all the same, so that no other version of it comes.
    modules = {group[0].format(branch=branch, version=driver.version) for group in names.kernel.values()}
    here = {one.name for one in stack.packages} | modules
    coupled = [StackPackage(name, version, "coupled") for name, version in stack.pinned if name not in here]
    for one in (*stack.packages, *coupled):
        if one.version == "*":
            yield _one(one, "", driver.source)
            continue
        made = dataclasses.replace(_one(one, branch, driver.source), streams=(stack.stream,) if stack.stream else ())
        if one == kernel[0]:
            rest = tuple(other.name for other in kernel[1:])
            made = dataclasses.replace(made, flavour=flavour, dkms=_dkms_name(stack), with_kernel=rest)
        yield made


def _dkms_name(stack: Stack) -> str:
    """Return the name that the real package gives its module: of EL's open one it changed with a version."""
    is_old = numbers(stack.driver) < numbers(_RENAMED_ON_EL)
    return "nvidia-open" if stack.family == "rpm" and stack.module == "open" and is_old else "nvidia"


def _one(package: StackPackage, branch: str, source: str) -> Found:
    version = concrete(package.version, _ENDS[source])
    upstream = version.partition(":")[2] or version
    name_and_version = (package.name, version, package.part, upstream.rpartition("-")[0] or upstream, branch)
    return Found(*name_and_version, source=source)


def concrete(pattern: str, end: str = "1") -> str:
    """Return a version that fits a pattern.

    >>> [concrete(one) for one in ("1:4.6.0-*", "12.9.*", "1.18.2-1", "*")]
    ['1:4.6.0-1', '12.9.0-1', '1.18.2-1', '*']
    """
    if pattern.endswith("-*"):
        return pattern[:-1] + end
    return pattern[:-1] + "0-1" if pattern.endswith(".*") else pattern
