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
from lab.vendor.found import StackOrigin
from lab.vendor.signing import Keys
from lab.vendor.standins import StandIn

MIRROR = "mirror"
PARTS = (*standins.REPOSITORIES, MIRROR)
"""Repositories, which are also the names of their keys."""


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
) -> Repository:
    """Build `directory`/public again, with the keys of `directory`/private, which are made on first use.

    `systems` as the cluster file names them (debian-13). `drivers` are versions of the resolver's table; none: all of it.
    `more_drivers` are versions that the table does not know; `broken` those whose module does not compile.
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
    with signing.keys(private, PARTS) as keys:
        for part in PARTS:
            repository.key(part).parent.mkdir(parents=True, exist_ok=True)
            repository.key(part).write_text(keys.public(part))
        for system, packages in by_system.items():
            if table.systems[system].family == "rpm":
                _write_rpms(repository, system, packages, keys)
            else:
                _write_debs(repository, system, packages, keys, origins)
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
        name, data = debs.file_name(package), debs.deb(package)
        path = repository.part(system, package.repository) / name
        path.write_bytes(data)
        os.link(path, repository.part(system, MIRROR) / name)
        digest = hashlib.sha256(data).hexdigest()
        stanza = f"{debs.control(package)}Filename: ./{name}\nSize: {len(data)}\nSHA256: {digest}\n"
        stanzas[package.repository].append(stanza)
        stanzas[MIRROR].append(stanza)
    for part, listed in stanzas.items():
        folder = repository.part(system, part)
        release = _write_index(folder, "\n".join(listed), origins.get(part, "Mirror of a site"))
        (folder / "InRelease").write_text(keys.clear_signed(part, release))


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


def _write_index(folder: Path, packages: str, origin: str) -> str:
    """Write the index of the packages; return the text to sign."""
    files = {"Packages": packages.encode(), "Packages.gz": gzip.compress(packages.encode(), 1, mtime=0)}
    lines = [
        f"Origin: {origin}",
        f"Label: {origin}",
        f"Architectures: {debs.architecture()}",
        f"Date: {formatdate(debs.WHEN, usegmt=True)}",
        "Description: Stand-ins for tests, not NVIDIA's software",
        "SHA256:",
    ]
    for name, data in files.items():
        (folder / name).write_bytes(data)
        lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
    return "\n".join(lines) + "\n"
