# SPDX-License-Identifier: GPL-3.0-or-later
"""Software of machines and where its packages are."""

from __future__ import annotations

from dataclasses import dataclass

from ...gpu_lock.lock_document import GpuLock
from ...gpu_rows.site_rows import NO_ROWS, SiteRows
from ...snapshots.snapshot_lock import ChosenSnapshot, SnapshotLock


@dataclass(frozen=True, slots=True)
class GpuMirror:
    """A repository with all of the GPU software: its address, and the path of the armored public key that signs it."""

    url: str
    key: str
    # Of the key, as the file writes them; (): not stated.
    fingerprints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuStack:
    """Requested GPU software of a profile's nodes; `plugin_utils/gpu_stack/resolve.py` resolves it to packages."""

    os: str
    source: str
    # A branch, whose latest known version is meant, or an exact version.
    driver: str
    # open, proprietary, or "" for what fits the GPUs.
    module: str = ""
    # hgx, nvl72, pcie, or "" for what the GPUs tell.
    platform: str = ""
    # A GPU model of the table; "": the profile's is one.
    model: str = ""
    # The kernel that is to run; "": the newest that is installed.
    kernel: str = ""
    cuda: tuple[str, ...] = ()
    toolkit: str = ""
    dcgm: str = ""
    nccl: str = ""
    # Of the kernel module: name and value.
    module_options: tuple[tuple[str, str], ...] = ()
    mirror: GpuMirror | None = None
    # Whether a snapshot has its repositories, which the role node_os writes.
    in_snapshot: bool = False
    # Of repositories: name and address, name and path of the armored public key.
    urls: tuple[tuple[str, str], ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    # Whether DCGM comes with its proprietary modules.
    dcgm_proprietary: bool = True
    # Further packages: a name, or name=version.
    packages: tuple[str, ...] = ()
    # Modules of GPUDirect: a name, or name=version.
    gpudirect: tuple[str, ...] = ()
    # Sources of others on a node that are in the way: vendor, refuse or take_over.
    foreign_sources: str = "vendor"
    # The versions of the site's lock; None: those of the table.
    lock: GpuLock | None = None
    # The site's own rows of the table.
    rows: SiteRows = NO_ROWS
    # Of the keys: name of the repository and fingerprints as the file writes them.
    fingerprints: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotOrigin:
    """A repository that snapshots copy: the system that reads it, its kind, and its origin. `key` is a path.

    `suites` and `components` are apt's; dnf has none. `architecture` is x86_64 or arm64.
    """

    system: str
    kind: str
    url: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    architecture: str
    key: str


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Dated copies of all repositories: where machines find them, the key that signs them (a path), and their origins.

    `system` is that of machines without GPU software, `test` names the nodes that try a snapshot first.
    """

    url: str
    key: str
    fingerprints: tuple[str, ...]
    system: str
    test: tuple[str, ...]
    repositories: tuple[SnapshotOrigin, ...]
    lock: SnapshotLock

    def of_machine(self, name: str) -> ChosenSnapshot | None:
        """Return the snapshot of a machine; None before the first promotion."""
        return self.lock.of_machine(name in self.test)


@dataclass(frozen=True, slots=True)
class PackageLogin:
    """A server of packages that needs a user and a password; `secret` is the name of the password."""

    url: str
    user: str
    secret: str


@dataclass(frozen=True, slots=True)
class PackageAccess:
    """Access of package managers to repositories. `proxy` is an address or "", `ca` the path of PEM certificates or ""."""

    proxy: str = ""
    no_proxy: tuple[str, ...] = ()
    ca: str = ""
    logins: tuple[PackageLogin, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of the passwords."""
        return tuple(dict.fromkeys(login.secret for login in self.logins))
