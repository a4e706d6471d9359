# SPDX-License-Identifier: GPL-3.0-or-later
"""Signed repositories of stand-ins, for apt and for dnf: NVIDIA's two, as they are apart, and both as one, as a site mirrors them."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from lab.shell import say
from lab.vendor import debs, found, rpms, signing, standins
from lab.vendor.found import StackOrigin, numbers
from lab.vendor.signing import Keys
from lab.vendor.standins import StandIn
from lab.vendor.ubuntu_kernels import kernels

MIRROR = "mirror"
PARTS = (*standins.REPOSITORIES, MIRROR)
"""Flat repositories, which are also the names of their keys."""
KEYS = (*PARTS, standins.UBUNTU)
# Of Canonical's archive: kernels, the driver, and its fabric.
_COMPONENTS = ("main", "restricted", "multiverse")
_POCKETS = ("", "-updates", "-security")


@dataclass(frozen=True)
class Repository:
    """Built repositories. `public` is for machines: <part>/<system>/ with an InRelease or repodata/ in each, and keys/<part>.asc."""

    public: Path

    def part(self, system: str, part: str) -> Path:
        """Return the flat repository of a part (a key of PARTS) for a system."""
        return self.public / part / system

    def key(self, part: str) -> Path:
        """Return the armored public key with which a part is signed."""
        return self.public / "keys" / f"{part}.asc"


def of_table(row: StackOrigin) -> str:
    """Return what a repository of the table is called here: by its one part, if it has one alone, else by its name."""
    return row.part or row.name


def build(
    directory: Path,
    systems: Sequence[str],
    *,
    drivers: Sequence[str] = (),
    more_drivers: Sequence[str] = (),
    broken: Collection[str] = (),
    canonical: Collection[str] = (),
) -> Repository:
    """Build `directory`/public again, with the keys of `directory`/private, which are made on first use.

    `systems` as the cluster file names them (debian-13). `drivers` are versions of the resolver's table; none: all of it.
    `more_drivers` are versions that the table does not know; `broken` those whose module does not compile. `canonical` are systems that
    also get Canonical's archive, with all of its drivers in the table.
    LabError: a driver or a system that is not known.
    """
    public, private = directory / "public", directory / "private"
    table = found.table_with(more_drivers, systems)
    wanted = [*drivers, *more_drivers] if drivers else []
    by_system = {
        system: standins.stand_ins(found.packages(system, wanted, table), table.dcgm.forbidden, broken)
        for system in systems
    }
    directory.mkdir(parents=True, exist_ok=True)
    # Emptied, not replaced: machines that have it mounted see what is in it now.
    for old in public.glob("*"):
        shutil.rmtree(old)
    repository = Repository(public)
    origins = {of_table(row): row.origin for row in table.repositories}
    with signing.keys(private, KEYS) as keys:
        for part in KEYS:
            repository.key(part).parent.mkdir(parents=True, exist_ok=True)
            repository.key(part).write_text(keys.public(part))
        # As a distribution installs it: not armored.
        repository.key(standins.UBUNTU).with_suffix(".gpg").write_bytes(signing.dearmored(keys.public(standins.UBUNTU)))
        for system, packages in by_system.items():
            if table.systems[system].family == "rpm":
                _write_rpms(repository, system, packages, keys)
            else:
                _write_debs(repository, system, packages, keys, origins)
        for system in canonical:
            of_canonical = found.packages(system, [], table, found.CANONICAL)
            made = standins.stand_ins(of_canonical, "", broken)
            suite = next(row.systems[system] for row in table.repositories if row.name == standins.UBUNTU)
            of_archive = [one for one in made if one.repository == standins.UBUNTU]
            _write_archive(public / standins.UBUNTU / system, suite, of_archive, kernels(system), keys)
    count = sum(map(len, by_system.values()))
    say("vendor", f"{count} stand-ins for NVIDIA's packages: {public} ({', '.join(systems)})")
    return repository


def _write_debs(
    repository: Repository, system: str, packages: Sequence[StandIn], keys: Keys, origins: Mapping[str, str]
) -> None:
    for part in PARTS:
        repository.part(system, part).mkdir(parents=True)
    stanzas: dict[str, list[str]] = {part: [] for part in PARTS}
    for package in packages:
        folder, name = repository.part(system, package.repository), debs.file_name(package)
        stanza = _stanza(package, folder, ".")
        os.link(folder / name, repository.part(system, MIRROR) / name)
        stanzas[package.repository].append(stanza)
        stanzas[MIRROR].append(stanza)
    for part, listed in stanzas.items():
        folder = repository.part(system, part)
        release = _write_index(folder, {"": "\n".join(listed)}, origins.get(part, "Mirror of a site"))
        (folder / "InRelease").write_text(keys.clear_signed(part, release))


def _write_archive(
    folder: Path, suite: str, packages: Sequence[StandIn], its_kernels: Sequence[StandIn], keys: Keys
) -> None:
    """Write an archive with suites and components: the oldest driver in the release, later ones in its updates, the newest as security."""
    versions = sorted({one.version for one in packages}, key=lambda one: numbers(one.partition("-")[0]))
    pockets = dict(zip(_POCKETS, (versions[:1], versions[1:], versions[-1:]), strict=True))
    components = [*((one, _component(one)) for one in packages), *((one, _COMPONENTS[0]) for one in its_kernels)]
    pockets[""] += [one.version for one in its_kernels]
    (folder / "pool").mkdir(parents=True)
    for pocket, listed in pockets.items():
        indexes = {}
        for component in _COMPONENTS:
            chosen = [one for one, of in components if one.version in listed and of == component]
            stanzas = "\n".join(_stanza(one, folder, "pool") for one in chosen)
            indexes[f"{component}/binary-{debs.architecture()}/"] = stanzas
        top = folder / "dists" / f"{suite}{pocket}"
        top.mkdir(parents=True)
        head = [f"Suite: {suite}{pocket}", f"Codename: {suite}", f"Components: {' '.join(_COMPONENTS)}"]
        release = _write_index(top, indexes, "Ubuntu", head)
        (top / "InRelease").write_text(keys.clear_signed(standins.UBUNTU, release))


def _component(package: StandIn) -> str:
    is_fabric = any(word in package.name for word in ("fabricmanager", "nscq", "imex"))
    return _COMPONENTS[1 + is_fabric]


def _stanza(package: StandIn, top: Path, folder: str) -> str:
    """Write a package below `top`/`folder` and return its paragraph of the index."""
    name, data = debs.file_name(package), debs.deb(package)
    (top / folder / name).write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return f"{debs.control(package)}Filename: {folder}/{name}\nSize: {len(data)}\nSHA256: {digest}\n"


def _write_rpms(repository: Repository, system: str, packages: Sequence[StandIn], keys: Keys) -> None:
    with tempfile.TemporaryDirectory(prefix="rpms-") as scratch:
        rpms.write(Path(scratch), packages)
        for part in PARTS:
            folder = repository.part(system, part)
            folder.mkdir(parents=True)
            listed = [one for one in packages if part in (one.repository, MIRROR)]
            files = [folder / rpms.file_name(one) for one in listed]
            for file in files:
                shutil.copy(Path(scratch) / file.name, file)
            # The mirror's own signature: a site gives its nodes one key.
            keys.sign_rpms(part, files)
            rpms.index(folder, listed, keys, part)


def _write_index(folder: Path, indexes: Mapping[str, str], origin: str, head: Sequence[str] = ()) -> str:
    """Write indexes of packages, each below a path that ends with a slash; return the text to sign."""
    files = {}
    for below, packages in indexes.items():
        files[f"{below}Packages"] = packages.encode()
        files[f"{below}Packages.gz"] = gzip.compress(packages.encode(), 1, mtime=0)
    lines = [
        f"Origin: {origin}",
        f"Label: {origin}",
        *head,
        f"Architectures: {debs.architecture()}",
        f"Date: {formatdate(debs.WHEN, usegmt=True)}",
        "Description: Stand-ins for tests, not NVIDIA's software",
        "SHA256:",
    ]
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
    return "\n".join(lines) + "\n"
