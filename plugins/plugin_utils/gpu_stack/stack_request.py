# SPDX-License-Identifier: GPL-3.0-or-later
"""A request for the GPU software of one kind of node, and the table's answers about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from . import driver_versions
from .stack_model import (
    ARCHITECTURES,
    BOARDS,
    FLAVOURS,
    UNCOUPLED,
    Driver,
    GpuDirect,
    Model,
    PackageNames,
    PlatformSoftware,
    StackSystem,
    StackTable,
)

_DCGM = re.compile(r"(?P<version>[0-9]+(\.[0-9]+){0,2})(-cuda(?P<cuda>[0-9]+))?\Z")


@dataclass(frozen=True)
class Request:
    """The request. "" is the GPUs' preference; `driver` a branch (its latest version in the table) or a whole version."""

    os: str
    source: str
    driver: str
    gpus: tuple[str, ...]
    platform: str = ""
    gpu_count: int = 0
    module: str = ""
    cuda: tuple[str, ...] = ()
    dcgm: str = ""
    # Whether DCGM comes with its proprietary modules.
    dcgm_proprietary: bool = True
    toolkit: str = ""
    nccl: str = ""
    kernel: str = ""
    # Of the site's choice: a name, or name=version.
    packages: tuple[str, ...] = ()
    # Modules of GPUDirect: a name of the table, or name=version.
    gpudirect: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A request beside the table. Lookups of unknown names return None, or leave them out."""

    request: Request
    table: StackTable

    @cached_property
    def system(self) -> StackSystem | None:
        """The operating system."""
        return self.table.systems.get(self.request.os)

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The GPU models that the table knows."""
        return tuple(self.table.models[name] for name in self.request.gpus if name in self.table.models)

    @cached_property
    def architecture(self) -> str:
        """The architecture of the CPU beside these GPUs."""
        return self.models[0].architecture if self.models else ARCHITECTURES[0]

    @cached_property
    def packages_arch(self) -> str:
        """The architecture in package names of this system."""
        return self.table.architectures[self.architecture][self.system.family if self.system else "deb"]

    @cached_property
    def drivers(self) -> list[Driver]:
        """The drivers of this source for this system and architecture, the oldest first."""
        return self.table.drivers_of(self.request.os, self.request.source, self.architecture)

    @cached_property
    def driver(self) -> Driver | None:
        """The driver that is meant: the one of this version, or the latest of this branch."""
        word = self.request.driver
        fits = [one for one in self.drivers if word in (one.version, str(one.branch))]
        return fits[-1] if fits else None

    @cached_property
    def driver_of_others(self) -> Driver | None:
        """The driver that is meant, where this source has it for the usual architecture and not for this one."""
        word = self.request.driver
        others = self.table.drivers_of(self.request.os, self.request.source)
        fits = [one for one in others if word in (one.version, str(one.branch))]
        return fits[-1] if fits and not self.driver else None

    @cached_property
    def names(self) -> PackageNames | None:
        """Package names of this source for this branch."""
        driver = self.driver
        return self.table.names_of(self.request.os, driver.source, driver.branch) if driver else None

    @cached_property
    def coupled(self) -> frozenset[str]:
        """Packages that are of the driver's version wherever they are installed."""
        driver = self.driver
        words = {"branch": driver.branch, "version": driver.version} if driver else {}
        return frozenset(name.format(**words) for name in self._coupled_templates)

    @cached_property
    def _coupled_templates(self) -> tuple[str, ...]:
        """Names of these packages, with {branch} and {version} where a name has them."""
        if self.names is None:
            return ()
        fabric = (group for part, group in self.names.fabric.items() if part not in UNCOUPLED)
        groups = (*self.names.kernel.values(), self.names.driver, self.names.coupled, *fabric)
        return tuple(name for group in groups for name in group)

    def renamed_for_driver(self, package: str) -> str:
        """Return the driver's own name of a package that has another branch in its name; "" for all other packages.

        With driver 580 libnvidia-compute-570 gives libnvidia-compute-580.
        """
        for template in self._coupled_templates:
            before, is_named, after = template.partition("{branch}")
            found = re.fullmatch(f"{re.escape(before)}([0-9]+){re.escape(after)}", package) if is_named else None
            if found and self.driver and int(found[1]) != self.driver.branch:
                return f"{before}{self.driver.branch}{after}"
        return ""

    @cached_property
    def wanted(self) -> tuple[str, ...]:
        """The kernel module flavours that all these GPUs take, the preferred one first."""
        return tuple(one for one in FLAVOURS if all(one in model.generation.flavours for model in self.models))

    @cached_property
    def flavour(self) -> str:
        """The kernel module flavour: the requested one, or the driver's preferred one; "" if the driver lacks them."""
        if self.request.module:
            return self.request.module
        return next((one for one in self.wanted if self.driver and one in self.driver.flavours), "")

    @cached_property
    def boards(self) -> tuple[str, ...]:
        """The platforms that these GPUs sit on by themselves: several where they do not go together."""
        least = self.table.platforms["hgx"].least_gpus
        few = self.request.gpu_count < least
        found = {"pcie" if model.board == "hgx" and few else model.board for model in self.models}
        return tuple(one for one in BOARDS if one in found)

    @cached_property
    def platform(self) -> str:
        """The platform: the requested one, or derived from the GPUs; "" if they do not decide it."""
        if self.request.platform in BOARDS:
            return self.request.platform
        return self.boards[0] if len(self.boards) == 1 else ""

    @cached_property
    def fabric(self) -> PlatformSoftware:
        """Needs of the platform beside the driver."""
        platform = self.table.platforms.get(self.platform)
        if platform is None:
            return PlatformSoftware()
        return platform.nvlink5 if any(model.generation.nvlink5 for model in self.models) else platform.fabric

    @cached_property
    def dcgm_is_old(self) -> bool:
        """Return whether the request has a DCGM older than the table's."""
        found = _DCGM.match(self.request.dcgm)
        return bool(found) and driver_versions.numbers(self.request.dcgm)[0] < int(self.table.dcgm.major)

    @cached_property
    def dcgm(self) -> tuple[str, str]:
        """DCGM's version, the latest one in the table for the request, and the requested CUDA major; "" for neither."""
        found = _DCGM.match(self.request.dcgm)
        if not found:
            return "", ""
        asked = found["version"]
        fits = [one for one in self.table.dcgm.versions if one == asked or one.startswith(asked + ".")]
        return max(fits, key=driver_versions.numbers, default=""), found["cuda"] or ""

    @cached_property
    def dcgm_cuda(self) -> str:
        """The CUDA major of DCGM's packages: the driver's, unless that no longer knows one of these GPUs; "" without a driver."""
        if not self.driver:
            return ""
        last = [int(model.generation.cuda_last) for model in self.models if model.generation.cuda_last]
        return str(min([int(self.table.cuda_major(self.driver.branch)), *last]))

    def gpudirect(self, name: str) -> GpuDirect | None:
        """Return a module of GPUDirect as this source has it on this system."""
        rows = [row for row in self.table.gpudirect if row.name == name]
        there = [row for row in rows if self.request.source in row.sources and self.request.os in row.systems]
        return there[0] if there else None

    @cached_property
    def nccl(self) -> str:
        """NCCL's version, the latest one in the table for the request; "" for none."""
        asked = self.request.nccl
        fits = [one for one in self.table.nccl.versions if one == asked or one.startswith(f"{asked}.")] if asked else []
        return max(fits, key=driver_versions.numbers, default="")

    @cached_property
    def cuda_major(self) -> str:
        """The CUDA major that programs here are built with: the first toolkit's, else that of the driver; "" without one."""
        if self.request.cuda:
            return self.request.cuda[0].split(".")[0]
        return self.table.cuda_major(self.driver.branch) if self.driver else ""
