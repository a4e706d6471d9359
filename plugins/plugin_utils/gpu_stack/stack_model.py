# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of the table of GPU software: systems, GPU models, platforms, and the versions and package names of each source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import driver_versions as versions

FAMILIES = ("deb", "rpm")
FLAVOURS = ("open", "proprietary")
# The usual one first.
ARCHITECTURES = ("x86_64", "arm64")
BOARDS = ("hgx", "nvl72", "pcie")
# Packages of the fabric that are not of the driver's version.
UNCOUPLED = ("nvlsm",)
FABRIC = ("fabricmanager", "nscq", "nvsdm", "imex", *UNCOUPLED)
# Above every branch.
_NO_END = 9999


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of the table. `verified`: it was read at its source, not in texts of others. A site vouches for its own rows."""

    verified: bool = True


@dataclass(frozen=True, kw_only=True)
class StackSystem(TableRow):
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
    stream: Mapping[str, str] = field(default_factory=dict)
    series: str
    modules_extra: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A GPU generation: kernel module flavours that it takes, the preferred one first.

    `cuda_least` is the first CUDA that compiles for it, `cuda_last` the last major that does (0: not yet).
    """

    name: str
    flavours: tuple[str, ...]
    nvlink5: bool = False
    cuda_least: str = ""
    cuda_last: int = 0


@dataclass(frozen=True, kw_only=True)
class Model(TableRow):
    """A GPU model; `board` is what eight or more of it sit on, `highest` its last driver branch (0: not yet).

    `lowest` is its first branch, and `least` the first version of that branch which drives it ("": every version).
    `architecture` is the CPU's that it comes with. `also` are further platforms that its nodes may have if the file states one.
    """

    name: str
    architecture: str = ARCHITECTURES[0]
    generation: Generation
    board: str
    lowest: int
    least: str = ""
    highest: int = 0
    also: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NvSwitches:
    """NVSwitches of a board that the PCI bus shows: their number on a board, and their PCI device id ("": not known)."""

    count: int
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class PlatformSoftware:
    """Needs of a platform beside the driver: parts (keys of Names.fabric), units and kernel modules.

    `least_kernel` is the lowest kernel by family of systems, `nodes_file` the file that lists the nodes of an NVLink domain.
    """

    parts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    modules_load: tuple[str, ...] = ()
    least_kernel: Mapping[str, str] = field(default_factory=dict)
    nodes_file: str = ""


@dataclass(frozen=True, kw_only=True)
class Platform(TableRow):
    """Connection of the GPUs of a node. `nvlink5` replaces `fabric` if the GPUs have NVLink 5.

    A board has `least_gpus` GPUs. `nvswitches` are those of a board by GPU generation, if the PCI bus shows them.
    """

    name: str
    least_gpus: int = 0
    nvswitches: Mapping[str, NvSwitches] = field(default_factory=dict)
    fabric: PlatformSoftware
    nvlink5: PlatformSoftware

    def switches_of(self, generation: str, gpus: int) -> NvSwitches | None:
        """Return the NVSwitches of all boards of a node with GPUs of a generation; None if the PCI bus does not show them."""
        row = self.nvswitches.get(generation)
        return replace(row, count=row.count * max(1, gpus // self.least_gpus)) if row else None


@dataclass(frozen=True, kw_only=True)
class StackOrigin(TableRow):
    """A repository of one source, or of one part alone. `keyring` is a file of the distribution; "": the site gives its key.

    `url`, `suites` have {system} for how it calls a system, {arch} for an architecture as packages have it; `urls` has those of
    architectures that are elsewhere. `least` is the lowest driver branch and CUDA major by architecture and system, where it has fewer
    than for others. `origin` is what its Release calls it. `unsigned_rpms`: of its rpms only the list is signed, which has their digests.
    `own_files`: names of the files in which its owner's package or installation guide names the repository, as patterns of a shell.
    """

    name: str
    source: str = ""
    part: str = ""
    systems: Mapping[str, str]
    url: str
    urls: Mapping[str, str] = field(default_factory=dict)
    least: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    suites: tuple[str, ...]
    components: tuple[str, ...] = ()
    keyring: str = ""
    origin: str
    unsigned_rpms: bool = False
    own_files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PackageNames(TableRow):
    """Package and file names of one source on these systems, for branches from `least` on and below `below`.

    `absent` are packages that an architecture does not have; `sources` are those of `kernel` with what DKMS compiles;
    `build` are packages beside DKMS that these depend on, to compile.
    """

    source: str
    systems: tuple[str, ...]
    least: int = 0
    below: int = _NO_END
    epoch: str = ""
    kernel: Mapping[str, tuple[str, ...]]
    driver: tuple[str, ...]
    coupled: tuple[str, ...] = ()
    support: tuple[str, ...] = ()
    absent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fabric: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sources: Mapping[str, tuple[str, ...]]
    build: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    module_file: Mapping[str, str]
    options_file: Mapping[str, str]
    options_module: Mapping[str, str]
    persistence_user: str = ""


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A driver version that a source has. `lacks` has the reason by flavour or missing fabric part."""

    source: str
    systems: tuple[str, ...]
    version: str
    packages: str = ""
    flavours: tuple[str, ...]
    own: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)

    @property
    def branch(self) -> int:
        """The branch of the version."""
        return versions.branch(self.version)


@dataclass(frozen=True, kw_only=True)
class Break:
    """Kernels, from the release `fails` on, on which a driver does not compile."""

    systems: tuple[str, ...]
    version: str
    works: str
    fails: str
    why: str


@dataclass(frozen=True, kw_only=True)
class BranchEnd:
    """End of life of a driver branch: `ends` is its month, such as 2028-06; `source` says where this was read."""

    branch: int
    ends: str
    source: str
    verified: bool


@dataclass(frozen=True, kw_only=True)
class InstalledDriver:
    """A driver whose real packages were installed on these systems, with the kernel modules of these flavours."""

    source: str
    systems: tuple[str, ...]
    version: str
    flavours: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CudaOffer(TableRow):
    """CUDA toolkits of one source: version to its packages with their versions.

    `components` are patterns of what comes with them, each in a version of its own; {cuda} is X-Y.
    """

    source: str
    systems: tuple[str, ...]
    versions: Mapping[str, Mapping[str, str]]
    components: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Nccl(TableRow):
    """NCCL: its packages by family of systems, and of each version the package's version by the CUDA major it is built with."""

    source: str
    systems: tuple[str, ...]
    packages: Mapping[str, tuple[str, ...]]
    versions: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Extra(TableRow):
    """DCGM or the container toolkit: known versions, package names and how a package version is written.

    `proprietary` are further packages, which a site may leave out.
    """

    source: str
    systems: tuple[str, ...]
    versions: tuple[str, ...]
    version: str
    packages: tuple[str, ...]
    proprietary: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    forbidden: str = ""
    service: str = ""

    @property
    def major(self) -> str:
        """The major of the latest version."""
        return max(self.versions, key=versions.numbers).split(".")[0]


@dataclass(frozen=True, kw_only=True)
class GpuDirect(TableRow):
    """A kernel module through which adapters and storage reach the memory of GPUs: of some sources on these systems.

    `module` is what modprobe loads, where {driver} is the driver's own module, and `loaded` its name in /sys/module. `device` is the file
    through which programs use it. `packages` are those by family of systems, that with the sources first, and `dkms` is DKMS's name of
    the module; a module without packages comes with the driver. `versions` are the known ones, the newest last. From the version
    `open_from` on it needs the open driver.
    """

    name: str
    sources: tuple[str, ...]
    systems: tuple[str, ...]
    module: str
    loaded: str
    device: str = ""
    dkms: str = ""
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    versions: tuple[str, ...] = ()
    open_from: str = ""


@dataclass(frozen=True, kw_only=True)
class StackTable:
    """The whole of stack.json. `cuda_least` is a CUDA major's lowest branch, `cuda_of_driver` (branch, major) ascending.

    `architectures` has how packages of a family (deb, rpm) call an architecture.
    """

    architectures: Mapping[str, Mapping[str, str]]
    systems: Mapping[str, StackSystem]
    models: Mapping[str, Model]
    platforms: Mapping[str, Platform]
    repositories: tuple[StackOrigin, ...]
    names: tuple[PackageNames, ...]
    drivers: tuple[Driver, ...]
    breaks: tuple[Break, ...]
    branches: tuple[BranchEnd, ...]
    installed: tuple[InstalledDriver, ...]
    cuda_least: Mapping[str, int]
    cuda_of_driver: tuple[tuple[int, str], ...]
    metapackages: tuple[str, ...]
    cuda: tuple[CudaOffer, ...]
    dcgm: Extra
    toolkit: Extra
    nccl: Nccl
    gpudirect: tuple[GpuDirect, ...]

    def switches_wanted(self, platform: str, switches: NvSwitches | None) -> dict[str, Any]:
        """Return the NVSwitches of a node in the form that module_utils/gpu/nvswitches.py compares; {} if they are not known."""
        if switches is None:
            return {}
        rows = [row for one in self.platforms.values() for row in one.nvswitches.values()]
        known = [row.device for row in rows if row.device]
        return {"platform": platform, "count": switches.count, "device": switches.device, "known": known}

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

    def names_of(self, system: str, source: str, branch: int) -> PackageNames | None:
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
