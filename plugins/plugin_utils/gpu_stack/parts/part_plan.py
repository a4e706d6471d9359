# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU software of a profile: the resolved set, its repositories, and the pins of each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...cluster import Cluster, GpuStack, Node, Profile
from ...cluster.gpu_stack_checks import stack_of
from ...gpu_lock.lock_document import UPDATE, path_of
from ...keys.repository_keys import trusted
from .. import apt_repositories as repositories
from .. import dnf_repositories, package_sources, stack_table
from ..apt_repositories import MIRROR, PackageRepository
from ..resolve import Stack, StackPackage
from . import nvlink_part

# Parts that are roles of their own; all other packages are the driver's.
_OWN = ("cuda", "gpudirect", "toolkit", "dcgm")
# Installed with another part: after the driver, against which they are built.
_WITH = {"gpudirect": "cuda"}
LOCKED = "/etc/bedplate/gpu-lock"
"""File of a node whose versions a lock states."""
# Which of them a system of a family has.
_MANAGERS = {"deb": "apt", "rpm": "dnf"}


@dataclass(frozen=True)
class GpuSoftware:
    """The GPU software of the nodes of a profile. `module_options`: NVLink's and the file's, which win.

    `lock_path`: where the lock is, or would be; "" without a cluster file. `by_table`: whether the site accepts the versions of bedplate's
    table where no lock exists.
    """

    profile: Profile
    file: GpuStack
    stack: Stack
    module_options: Mapping[str, str]
    lock_path: str = ""
    by_table: bool = False

    @property
    def obstacle(self) -> dict[str, str] | None:
        """Return the file that stops a part, as bedplate.cluster.deploy takes it: without its lock a node would get other versions."""
        if self.file.lock is not None or self.by_table or not self.lock_path:
            return None
        advice = (
            f"The GPU software of this node is of a lock, and {self.lock_path} does not exist; bedplate's table may have other versions. "
            f"Restore the lock from git, or write it again: {UPDATE}. To go by the table, set gpu_resolve: 'off'."
        )
        return {"path": LOCKED, "advice": advice}

    @property
    def lock_names(self) -> list[str]:
        """Return the name of the lock in a list; [] without a lock."""
        return [self.lock_path.rpartition("/")[2]] if self.file.lock is not None and self.lock_path else []

    @cached_property
    def repositories(self) -> tuple[PackageRepository, ...]:
        """Repositories of all packages: the mirror alone, if the file has one; none for a node with a snapshot.

        ValueError: a key that cannot be read, or another one.
        """
        if self.file.in_snapshot:
            return ()
        if self.file.mirror:
            url = f"{self.file.mirror.url}/{repositories.mirrored(self.file.os, self.stack.architecture)}"
            key = trusted(self.file.mirror.key, self.file.mirror.fingerprints)
            return (PackageRepository(MIRROR, url, ("./",), (), key),)
        urls, stated = dict(self.file.urls), dict(self.file.fingerprints)
        keys = {name: trusted(path, stated.get(name, ())) for name, path in self.file.keys}
        rows = repositories.of_stack(self.stack, self.file.os, self.file.source)
        system, architecture = self.file.os, self.stack.architecture
        return tuple(
            repositories.located(row, system, urls.get(row.name, ""), keys.get(row.name, ""), architecture)
            for row in rows
        )

    @property
    def foreign_sources(self) -> dict[str, Any]:
        """Return what becomes of sources of others that are in the way, as bedplate.cluster.deploy takes it."""
        rows = repositories.of_stack(self.stack, self.file.os, self.file.source)
        return {"policy": self.file.foreign_sources, "vendor": [name for row in rows for name in row.own_files]}

    @property
    def manager(self) -> str:
        """The package manager of these nodes, as bedplate.cluster.deploy names it."""
        return _MANAGERS[self.stack.family]

    def packages(self, part: str) -> list[StackPackage]:
        """Return the packages of a part; `driver` is what no other part has."""
        return [
            one
            for one in self.stack.packages
            if _WITH.get(one.part, one.part if one.part in _OWN else "driver") == part
        ]

    def pinned(self, part: str) -> dict[str, str]:
        """Return name -> version of what is never to be another version because of this part."""
        others = {one.name for one in self.stack.packages if one.part in _OWN}
        mine = {one.name for one in self.packages(part)}
        found = {
            name: version
            for name, version in self.stack.pinned
            if name in mine or (part == "driver" and name not in others)
        }
        return {**found, **dict(self.stack.component_versions)} if part == "cuda" else found

    def components(self, part: str) -> list[str]:
        """Return patterns of the dependencies of a part; those without a version in a lock keep their installed one."""
        return list(self.stack.components) if part == "cuda" else []

    def origins(self, part: str) -> package_sources.Values:
        """Return the values of the repositories of a part."""
        by_part = {row.name: row.part for row in stack_table.default().repositories}
        own = part if part in by_part.values() else ""
        mine = [one for one in self.repositories if one.name == MIRROR or by_part[one.name] == own]
        return package_sources.of_repositories(self.stack.family, mine)

    def kernels(self) -> package_sources.Values:
        """Return the values of what keeps dnf from installing another kernel; on other systems a hold does.

        A stated kernel is locked with all that goes with it. Without one none comes but by hand: headers alone boot nothing.
        """
        if self.stack.family != "rpm":
            return {}
        versions = {name: one for name, one in self.stack.pinned if name in self.stack.kernel_packages}
        about = "kernels; the driver must be proven for each"
        if versions:
            version = next(iter(versions.values()))
            return package_sources.of_pins("rpm", about, dict.fromkeys(self.stack.kernel_follows, version) | versions)
        return package_sources.of_pins("rpm", about, {}, self.no_kernels)

    @property
    def no_kernels(self) -> list[str]:
        """The packages of kernels that dnf must never install: all except headers, if the file states no kernel."""
        return [] if self.stack.family != "rpm" or self.file.kernel else list(self.stack.kernel_follows[1:])

    def pins(self, part: str, never: tuple[str, ...] = ()) -> package_sources.Values:
        """Return the values of apt's preferences, or dnf's stream and locks; `never`: package patterns that must not be installed."""
        about = f"{part} of driver {self.stack.driver}: one set, which changes as a whole."
        if self.stack.family == "rpm":
            stream = dnf_repositories.stream_values(self.stack.stream) if part == "driver" else []
            locked = {name: one for name, one in self.pinned(part).items() if name not in self.stack.kernel_packages}
            return {"dnf_streams": stream, **package_sources.of_pins("rpm", about, locked, never)}
        foreign = self._foreign if part == "driver" else None
        return package_sources.of_pins("deb", about, self.pinned(part), never, foreign)

    def sources(self, part: str, never: tuple[str, ...] = ()) -> package_sources.Values:
        """Return the values of all that apt or dnf reads before it installs a part."""
        return {**package_sources.none(), **self.origins(part), **self.pins(part, never)}

    @property
    def _foreign(self) -> dict[str, list[str]]:
        """Repositories that have a driver of another source for this system, by what they call themselves -> its packages."""
        rows = stack_table.default().repositories
        own = {row.origin for row in rows if row.source == self.file.source}
        others = {row.origin for row in rows if row.source and self.file.os in row.systems} - own
        names = [name for name in self.pinned("driver") if name not in self.stack.kernel_packages]
        return dict.fromkeys(sorted(others), names)


def software_of(cluster: Cluster, host: str, by_table: bool = False) -> GpuSoftware | None:
    """Return the GPU software of a host; None for a host without GPUs, and if the file has no GPU software.

    `by_table`: whether the site accepts the versions of bedplate's table where no lock exists.

    KeyError: no machine of the cluster.
    """
    machine = cluster.machine(host)
    if not isinstance(machine, Node) or machine.profile.gpus is None or machine.profile.gpu_stack is None:
        return None
    profile = machine.profile
    if profile.gpu_stack is None:
        raise AssertionError("checked above")
    stack = stack_of(profile.gpu_stack, profile)
    options = {**nvlink_part.module_options(stack, cluster), **dict(profile.gpu_stack.module_options)}
    lock_path = str(path_of(cluster.path) or "")
    in_snapshot = cluster.snapshots is not None and cluster.snapshots.of_machine(host) is not None
    file = replace(profile.gpu_stack, in_snapshot=in_snapshot)
    return GpuSoftware(profile, file, stack, options, lock_path, by_table)


def packages(wanted: GpuSoftware, part: str) -> dict[str, Any]:
    """Return the values of a part that are about packages: manager, foreign_sources, packages, follow, hold."""
    packages = wanted.packages(part)
    named = {one.name for one in packages}
    # A node has the kernels that its distribution gave it; only that one's headers are of the set.
    rest = {
        name: one for name, one in wanted.pinned(part).items() if name not in (*named, *wanted.stack.kernel_packages)
    }
    return {
        "manager": wanted.manager,
        "obstacle": wanted.obstacle,
        "foreign_sources": wanted.foreign_sources,
        "packages": [f"{one.name}={one.version}" for one in packages],
        "follow": [*(f"{name}={version}" for name, version in rest.items()), *wanted.components(part)],
        # dnf's locks are among the sources.
        "hold": [one.name for one in packages] if wanted.manager == "apt" else [],
    }


def expected(wanted: GpuSoftware, part: str, role: str, units: Sequence[str] = ()) -> dict[str, Any]:
    """Return the expected packages of a part on a node, as bedplate.cluster.node_state compares them."""
    named = {one.name: one.version for one in wanted.packages(part)}
    # Of its kernels a node may have several.
    pinned = {name: one for name, one in wanted.pinned(part).items() if name not in wanted.stack.kernel_packages}
    return {
        "role": role,
        "manager": wanted.manager,
        # rpm has every kernel under the same name.
        "several": list(wanted.stack.kernel_packages) if wanted.manager == "dnf" else [],
        # Those of which dnf is to bring no other, whatever is there.
        "none": [],
        "about": f"of driver {wanted.stack.driver}" if part == "driver" else f"of {part}",
        "packages": named,
        "pinned": {name: version for name, version in pinned.items() if name not in named},
        # What may be left of another driver.
        "others": list(wanted.stack.others) if part == "driver" else [],
        # Of whichever version, and held.
        "follow": wanted.components(part),
        "units": list(units),
    }
