# SPDX-License-Identifier: GPL-3.0-or-later
"""Signed flat apt repositories of stand-ins: NVIDIA's two, as they are apart, and both as one, as a site mirrors them."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from lab.shell import say
from lab.vendor import debs, found, signing, standins
from lab.vendor.signing import Keys
from lab.vendor.standins import StandIn

MIRROR = "mirror"
PARTS = (*standins.REPOSITORIES, MIRROR)
"""Repositories, which are also the names of their keys."""


@dataclass(frozen=True)
class Repository:
    """What was built. `public` is what machines may see: <part>/<system>/ with an InRelease in each, and keys/<part>.asc."""

    public: Path

    def part(self, system: str, part: str) -> Path:
        """Return the flat repository of a part (a key of PARTS) for a system."""
        return self.public / part / system

    def key(self, part: str) -> Path:
        """Return the armored public key with which a part is signed."""
        return self.public / "keys" / f"{part}.asc"


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
    origins = {row.name: row.origin for row in table.repositories}
    with signing.keys(private, PARTS) as keys:
        for part in PARTS:
            repository.key(part).parent.mkdir(parents=True, exist_ok=True)
            repository.key(part).write_text(keys.public(part))
        for system, packages in by_system.items():
            _write_system(repository, system, packages, keys, origins)
    count = sum(map(len, by_system.values()))
    say("vendor", f"{count} stand-ins for NVIDIA's packages: {public} ({', '.join(systems)})")
    return repository


def _write_system(
    repository: Repository, system: str, packages: Iterable[StandIn], keys: Keys, origins: Mapping[str, str]
) -> None:
    index: dict[str, list[str]] = {part: [] for part in PARTS}
    for part in PARTS:
        repository.part(system, part).mkdir(parents=True)
    for package in packages:
        name, data = debs.file_name(package), debs.deb(package)
        path = repository.part(system, package.repository) / name
        path.write_bytes(data)
        os.link(path, repository.part(system, MIRROR) / name)
        digest = hashlib.sha256(data).hexdigest()
        stanza = f"{debs.control(package)}Filename: ./{name}\nSize: {len(data)}\nSHA256: {digest}\n"
        index[package.repository].append(stanza)
        index[MIRROR].append(stanza)
    for part, stanzas in index.items():
        folder = repository.part(system, part)
        release = _write_index(folder, "\n".join(stanzas), origins.get(part, "Mirror of a site"))
        (folder / "InRelease").write_text(keys.clear_signed(part, release))


def _write_index(folder: Path, packages: str, origin: str) -> str:
    """Write what lists the packages; return the text that is to be signed."""
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
