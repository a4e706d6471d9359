# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the repositories of a cluster's GPU nodes into a lock: all versions of the packages that the table can name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..cluster import Cluster, GpuStack
from ..cluster.gpu_stack_checks import armored, request_of
from ..gpu_lock import locked_table, package_names
from ..gpu_lock.lock_document import GpuLock, LockedIndex, LockedSource, lock_of
from ..gpu_lock.locked_stack import architecture_of
from ..gpu_lock.version_order import newest_first
from ..gpu_stack import apt_repositories
from ..gpu_stack.apt_repositories import MIRROR, PackageRepository
from ..gpu_stack.stack_model import StackOrigin, StackTable
from . import apt_index, dnf_index
from .index_model import IndexReadError, PackageIndex


@dataclass(frozen=True)
class IndexRequest:
    """A source on a system, and the repositories in which its packages are."""

    system: str
    source: str
    architecture: str
    repositories: tuple[PackageRepository, ...]

    @property
    def called(self) -> str:
        """Name of the system in a lock."""
        return apt_repositories.mirrored(self.system, self.architecture)


def requests(cluster: Cluster, table: StackTable, origins: bool = False) -> list[IndexRequest]:
    """Return what the profiles with a `gpu_stack` need, once for each source and system.

    `origins`: the owners' repositories also where the nodes read a mirror. IndexReadError: a key that is missing or cannot be read.
    """
    found: dict[tuple[str, str, str], dict[str, PackageRepository]] = {}
    mistakes: list[str] = []
    for profile in cluster.profiles.values():
        stack = profile.gpu_stack
        if stack is None or profile.gpus is None:
            continue
        stack = replace(stack, mirror=None) if origins else stack
        architecture = architecture_of(request_of(stack, profile), stack.rows)
        named = found.setdefault((stack.os, stack.source, architecture), {})
        try:
            for one in _repositories(stack, architecture, table):
                if named.setdefault(one.name, one) != one:
                    text = f"profile {profile.name}: repository {one.name} of {stack.os} has another address or key than in another profile"
                    mistakes.append(
                        f"{cluster.path}: {text}. A lock has one: state it in the `gpu_stack` of the cluster."
                    )
        except ValueError as error:
            mistakes.append(f"{cluster.path}: profile {profile.name}: {error}")
    if mistakes:
        raise IndexReadError(mistakes)
    return [IndexRequest(*key, tuple(one.values())) for key, one in found.items()]


def _repositories(stack: GpuStack, architecture: str, table: StackTable) -> Iterator[PackageRepository]:
    if stack.mirror:
        url = f"{stack.mirror.url}/{apt_repositories.mirrored(stack.os, architecture)}"
        yield PackageRepository(MIRROR, url, ("./",), (), armored(stack.mirror.key))
        return
    urls, keys = dict(stack.urls), {name: armored(path) for name, path in stack.keys}
    for row in table.repositories:
        if stack.os in row.systems and (row.source == stack.source or (row.part == "toolkit" and stack.toolkit)):
            one = apt_repositories.located(row, stack.os, urls.get(row.name, ""), keys.get(row.name, ""), architecture)
            if not one.key:
                raise ValueError(_no_key(row))
            yield one


def _no_key(row: StackOrigin) -> str:
    return f"no key for repository {row.name!r}: `keys: {{{row.name}: FILE}}`, the armored public key that its owner publishes"


def read(cluster: Cluster, table: StackTable, origins: bool = False) -> GpuLock:
    """Return the lock of the indexes as they are now. IndexReadError: all that cannot be read, or is not proven."""
    systems: dict[str, dict[str, LockedSource]] = {}
    mistakes: list[str] = []
    for request in requests(cluster, table, origins):
        family = table.systems[request.system].family
        architecture = table.architectures[request.architecture][family]
        indexes: list[PackageIndex] = []
        for repository in request.repositories:
            try:
                reader = dnf_index.read if family == "rpm" else apt_index.read
                indexes += reader(repository, architecture)
            except IndexReadError as error:
                mistakes += [f"{request.called}, repository {repository.name}: {text}" for text in error.mistakes]
        locked = _locked(request, indexes, family, table)
        systems.setdefault(request.called, {})[request.source] = locked
        mistakes += [] if mistakes else _without_driver(request, locked, table)
    if mistakes:
        raise IndexReadError(mistakes)
    return lock_of(systems)


def _without_driver(request: IndexRequest, locked: LockedSource, table: StackTable) -> list[str]:
    """Return the mistake of indexes that have no whole driver, such as the indexes of another repository."""
    of_lock = locked_table.table_of(table, locked, request.system, request.source, request.architecture)
    if of_lock.drivers_of(request.system, request.source, request.architecture):
        return []
    read = ", ".join(one.url for one in locked.indexes)
    return [f"{request.called}: no driver of {request.source} is complete in these indexes: {read}"]


def _locked(request: IndexRequest, indexes: list[PackageIndex], family: str, table: StackTable) -> LockedSource:
    is_named = package_names.of_source(table, request.system, request.source)
    found: dict[str, set[str]] = {}
    for index in indexes:
        for package, version in index.packages:
            if is_named(package):
                found.setdefault(package, set()).add(version)
    packages: Mapping[str, tuple[str, ...]] = {name: tuple(newest_first(family, found[name])) for name in sorted(found)}
    listed = tuple(LockedIndex(one.repository, one.suite, one.url, one.sha256) for one in indexes)
    return LockedSource(listed, packages)
