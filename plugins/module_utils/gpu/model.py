# SPDX-License-Identifier: GPL-3.0-or-later
"""What the table of GPU software is made of: systems, GPU models, platforms, and what each source has and how it calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import versions

FLAVOURS = ("open", "proprietary")
# The usual one first.
ARCHITECTURES = ("x86_64", "arm64")
BOARDS = ("hgx", "nvl72", "pcie")
# Packages of the fabric that are not of the driver's version.
UNCOUPLED = ("nvlsm",)
FABRIC = ("fabricmanager", "nscq", "nvsdm", "imex", *UNCOUPLED)


@dataclass(frozen=True)
class Known:
    """Where a row is known from, and whether it was seen at the source itself."""

    origin: str
    verified: bool


@dataclass(frozen=True)
class System:
    """An operating system. `stream` is a dnf module stream by flavour, `kernels` package versions by kernel release.

    `series` is the kernel that it comes with, `modules_extra` are packages with modules that its kernel's own package leaves out.
    """

    name: str
    family: str
    headers: tuple[tuple[str, str], ...]
    kernel_pins: tuple[str, ...]
    # What follows the newest kernel: its headers first, by name, then patterns.
    kernel_follows: tuple[str, ...]
    kernels: Mapping[str, str]
    stream: Mapping[str, str]
    series: str
    modules_extra: tuple[str, ...]
    known: Known


@dataclass(frozen=True)
class Generation:
    """A GPU generation: kernel module flavours that it takes, the preferred one first."""

    name: str
    flavours: tuple[str, ...]
    nvlink5: bool


@dataclass(frozen=True)
class Model:
    """A GPU model; `board` is what eight or more of it sit on, `highest` its last driver branch (0: not yet).

    `architecture` is the CPU's that it comes with.
    """

    name: str
    architecture: str
    generation: Generation
    board: str
    lowest: int
    highest: int


@dataclass(frozen=True)
class Fabric:
    """What a platform needs beside the driver: parts (keys of Names.fabric), units and kernel modules.

    `least_kernel` is the lowest kernel by family of systems, `nodes_file` the file that lists the nodes of an NVLink domain.
    """

    parts: tuple[str, ...]
    services: tuple[str, ...]
    modules_load: tuple[str, ...]
    least_kernel: Mapping[str, str]
    nodes_file: str


@dataclass(frozen=True)
class Platform:
    """How the GPUs of a node are connected. `nvlink5` replaces `fabric` where the GPUs have NVLink 5."""

    name: str
    least_gpus: int
    fabric: Fabric
    nvlink5: Fabric


@dataclass(frozen=True)
class Origin:
    """A repository of one source, or of one part alone. `keyring` is a file of the distribution; "": its key has to be given.

    `url`, `suites` have {system} for how it calls a system, {arch} for an architecture as packages have it; `urls` has those of
    architectures that are elsewhere. `least` is the lowest driver branch and CUDA major by architecture and system, where it has fewer
    than for others. `origin` is what its Release calls it. `unsigned_rpms`: of its rpms only the list is signed, which has their digests.
    """

    name: str
    source: str
    part: str
    systems: Mapping[str, str]
    url: str
    urls: Mapping[str, str]
    least: Mapping[str, Mapping[str, Mapping[str, int]]]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    keyring: str
    origin: str
    unsigned_rpms: bool
    known: Known


@dataclass(frozen=True)
class Names:
    """Package and file names of one source on these systems, for branches from `least` on and below `below`.

    `absent` are packages that an architecture does not have.
    """

    source: str
    systems: tuple[str, ...]
    least: int
    below: int
    epoch: str
    kernel: Mapping[str, tuple[str, ...]]
    driver: tuple[str, ...]
    coupled: tuple[str, ...]
    support: tuple[str, ...]
    absent: Mapping[str, tuple[str, ...]]
    fabric: Mapping[str, tuple[str, ...]]
    dkms: Mapping[str, str]
    module_file: Mapping[str, str]
    options_file: Mapping[str, str]
    options_module: Mapping[str, str]
    persistence_user: str
    known: Known


@dataclass(frozen=True)
class Driver:
    """A driver version that a source has. `lacks` says by flavour or fabric part why it has none of that."""

    source: str
    systems: tuple[str, ...]
    version: str
    packages: str
    flavours: tuple[str, ...]
    own: Mapping[str, str]
    lacks: Mapping[str, str]
    known: Known

    @property
    def branch(self) -> int:
        """The branch of the version."""
        return versions.branch(self.version)


@dataclass(frozen=True)
class Break:
    """Kernels, from the release `fails` on, on which a driver does not compile."""

    systems: tuple[str, ...]
    version: str
    works: str
    fails: str
    why: str


@dataclass(frozen=True)
class CudaOffer:
    """CUDA toolkits of one source: version to its packages with their versions.

    `components` are patterns of what comes with them, each in a version of its own; {cuda} is X-Y.
    """

    source: str
    systems: tuple[str, ...]
    versions: Mapping[str, Mapping[str, str]]
    components: tuple[str, ...]
    known: Known


@dataclass(frozen=True)
class Nccl:
    """NCCL: its packages by family of systems, and of each version the package's version by the CUDA major it is built with."""

    source: str
    systems: tuple[str, ...]
    packages: Mapping[str, tuple[str, ...]]
    versions: Mapping[str, Mapping[str, str]]
    known: Known


@dataclass(frozen=True)
class Extra:
    """DCGM or the container toolkit: known versions, package names and how a package version is written."""

    source: str
    systems: tuple[str, ...]
    versions: tuple[str, ...]
    version: str
    packages: tuple[str, ...]
    cuda: tuple[str, ...]
    forbidden: str
    service: str
    known: Known

    @property
    def major(self) -> str:
        """The major of the latest version."""
        return max(self.versions, key=versions.numbers).split(".")[0]


@dataclass(frozen=True)
class Table:
    """The whole of stack.json. `cuda_least` is a CUDA major's lowest branch, `cuda_of_driver` (branch, major) ascending.

    `architectures` has how packages of a family (deb, rpm) call an architecture.
    """

    architectures: Mapping[str, Mapping[str, str]]
    systems: Mapping[str, System]
    models: Mapping[str, Model]
    platforms: Mapping[str, Platform]
    repositories: tuple[Origin, ...]
    names: tuple[Names, ...]
    drivers: tuple[Driver, ...]
    breaks: tuple[Break, ...]
    cuda_least: Mapping[str, int]
    cuda_of_driver: tuple[tuple[int, str], ...]
    metapackages: tuple[str, ...]
    cuda: tuple[CudaOffer, ...]
    dcgm: Extra
    toolkit: Extra
    nccl: Nccl

    def sources(self, system: str = "") -> list[str]:
        """Return the sources of drivers, of one system or of any."""
        return unique(one.source for one in self.drivers if not system or system in one.systems)

    def drivers_of(self, system: str, source: str, architecture: str = ARCHITECTURES[0]) -> list[Driver]:
        """Return the drivers that a source has for a system, the oldest first."""
        least = self.least(system, source, architecture, "driver")
        found = [one for one in self.drivers if one.source == source and system in one.systems and one.branch >= least]
        return sorted(found, key=lambda one: versions.numbers(one.version))

    def least(self, system: str, source: str, architecture: str, what: str) -> int:
        """Return the lowest driver branch, or CUDA major, that a source has for an architecture of a system; 0: all of them."""
        rows = (row.least for row in self.repositories if row.source == source)
        return max((row.get(architecture, {}).get(system, {}).get(what, 0) for row in rows), default=0)

    def names_of(self, system: str, source: str, branch: int) -> Names | None:
        """Return how the packages of this branch are called there."""
        for row in self.names:
            if row.source == source and system in row.systems and row.least <= branch < row.below:
                return row
        return None

    def cuda_of(self, system: str, source: str) -> CudaOffer | None:
        """Return the CUDA toolkits that a source has for a system."""
        return next((one for one in self.cuda if one.source == source and system in one.systems), None)

    def cuda_major(self, branch: int) -> str:
        """Return the CUDA major of a driver branch's user-mode driver."""
        return [major for lowest, major in self.cuda_of_driver if lowest <= branch][-1]


def unique(items: Iterable[str]) -> list[str]:
    """Return the items once each, in their order."""
    return list(dict.fromkeys(items))
