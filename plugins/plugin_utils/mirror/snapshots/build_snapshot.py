# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a snapshot: fetch what the pool lacks, write all repositories beside their place, and rename them into it.

A snapshot is never changed afterwards. Whoever reads a folder with its name reads a whole snapshot.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command

from ...cluster import SnapshotOrigin
from .. import build_mirror, downloads, signing
from ..downloads import Download, make_directory
from ..mirror_model import MirrorError
from ..signed_repository import write
from ..signing import Signer
from . import apt_suites, read_snapshot, rpm_repositories, snapshot_order
from .snapshot_model import MANIFEST, PACKAGES, POOL, Repository, SnapshotReport, systems_of
from .snapshot_order import SnapshotOrder

FORMAT = 1
LABEL = "bedplate-snapshot"
_RPM_TOOLS = {"dnf": "dnf", "createrepo_c": "createrepo-c", "rpm": "rpm"}


def make(order: SnapshotOrder, signer: Callable[[], Signer | None]) -> SnapshotReport:
    """Make the snapshot unless it exists, and return the report. MirrorError: all mistakes.

    `signer` is called after all origins have been read.
    """
    _check_tools(order)
    with build_mirror.alone(order.cache):
        if order.place.exists():
            return _existing(order, signer())
        repositories = _read(order)
        missing = downloads.absent(_jobs(order, repositories))
        report = _report(order, repositories)
        report.changed = True
        report.fetched, report.fetched_size = sorted({job.url for job in missing}), downloads.size_of(missing)
        key = signer()
        if not order.check:
            if key is None:
                raise AssertionError("a snapshot that is written has a signer")
            _fetch(order, missing)
            _write(order, repositories, key)
        return report


def pool_file(directory: Path, sha256: str) -> Path:
    """Return where the pool beside the snapshots has a file."""
    return directory / POOL / sha256[:2] / sha256


def _check_tools(order: SnapshotOrder) -> None:
    build_mirror.check_tools()
    if any(snapshot_order.family_of(one.system) == "rpm" for one in order.repositories):
        lacking = sorted(package for tool, package in _RPM_TOOLS.items() if not command.find(tool))
        if not lacking and command.run(["dnf", "reposync", "--help"]).code != 0:
            lacking = ["dnf-plugins-core"]
        if lacking:
            raise MirrorError([f"this machine lacks what copies dnf repositories: apt-get install {' '.join(lacking)}"])


def _existing(order: SnapshotOrder, signer: Signer | None) -> SnapshotReport:
    """Return the report of a snapshot that exists: it is compared with its manifest, and never changed."""
    if signer is None:
        raise MirrorError([f"{order.place} exists, and the secret of the mirror's key does not. Restore it"])
    return _report(order, read_snapshot.read(order.directory.as_uri(), order.name, signer).repositories)


def _report(order: SnapshotOrder, repositories: Sequence[Repository]) -> SnapshotReport:
    every = [package for one in repositories for package in one.packages]
    size = sum(one.size for one in every)
    return SnapshotReport(
        order.name, str(order.place), packages=len(every), size=size, systems=systems_of(repositories)
    )


def _read(order: SnapshotOrder) -> list[Repository]:
    """Return the repositories with all packages of their origins; MirrorError: all mistakes, over all origins."""
    found, mistakes = [], []
    for (system, kind), origins in order.kinds().items():
        try:
            found.append(_repository(order, system, kind, origins))
        except MirrorError as error:
            mistakes += error.mistakes
    if mistakes:
        raise MirrorError(mistakes)
    return found


def _repository(order: SnapshotOrder, system: str, kind: str, origins: Sequence[SnapshotOrigin]) -> Repository:
    digest = hashlib.sha256(repr(origins).encode()).hexdigest()[:12]
    directory = order.cache / system / f"{kind}-{digest}"
    manager = "apt" if snapshot_order.family_of(system) == "deb" else "dnf"
    if manager == "apt":
        apt = [snapshot_order.apt_origin(one, number) for number, one in enumerate(origins)]
        listed = apt_suites.packages_of(directory, system, snapshot_order.dpkg_architecture(origins[0]), apt)
    elif order.check:
        listed = []  # what reposync would fetch is known only by fetching it
    else:
        listed = rpm_repositories.packages_of(directory, system, origins)
    return Repository(system, kind, manager, tuple(listed), tuple(_origin(one) for one in origins))


def _origin(origin: SnapshotOrigin) -> dict[str, Any]:
    key = signing.key_of(origin.url, Path(origin.key))
    return {
        "url": origin.url,
        "suites": list(origin.suites),
        "components": list(origin.components),
        "architecture": origin.architecture,
        "fingerprints": list(key.fingerprints),
    }


def _jobs(order: SnapshotOrder, repositories: Sequence[Repository]) -> list[Download]:
    by_sum = {package.sha256: package for one in repositories for package in one.packages}
    return [Download(one.url, pool_file(order.directory, digest), digest, one.size) for digest, one in by_sum.items()]


def _fetch(order: SnapshotOrder, missing: Sequence[Download]) -> None:
    config = order.cache / "apt.conf"
    config.write_text("// Written by bedplate: apt-helper fetches with this machine's access.\n")
    downloads.fetch_all(missing, order.directory, config, "and no snapshot was made")


def _write(order: SnapshotOrder, repositories: Sequence[Repository], signer: Signer) -> None:
    beside = order.directory / f".{order.name}.part"
    shutil.rmtree(beside, ignore_errors=True)
    make_directory(beside)
    written = []
    for one in repositories:
        place = beside / one.place
        make_directory(place)
        for package in one.packages:
            make_directory((place / package.file).parent)
            os.link(pool_file(order.directory, package.sha256), place / package.file)
        names = _apt_index(order, one, place, signer) if one.manager == "apt" else _rpm_index(place, signer)
        write(place / PACKAGES, "".join(f"{package.line}\n" for package in one.packages).encode())
        digests = {name: downloads.sha256_of(place / name) for name in (*names, PACKAGES)}
        written.append((one, digests))
    write(beside / MANIFEST, signer.sign(_manifest(order, written)).encode())
    write(order.directory / build_mirror.KEY, signer.public.encode())
    beside.rename(order.place)


def _apt_index(order: SnapshotOrder, one: Repository, place: Path, signer: Signer) -> list[str]:
    data = "\n".join(package.paragraph for package in one.packages).encode()
    files = {"Packages": data, "Packages.gz": gzip.compress(data, 6, mtime=0)}
    sums = "".join(f" {hashlib.sha256(text).hexdigest()} {len(text)} {name}\n" for name, text in files.items())
    date = formatdate(usegmt=True).replace("GMT", "UTC")
    # No Valid-Until: a snapshot stays as it is, and is in use for as long as it is promoted.
    release = (
        f"Origin: bedplate\nLabel: {LABEL}\nSuite: {one.kind}\nCodename: {one.kind}\nVersion: {order.name}\nDate: {date}\n"
        f"SHA256:\n{sums}"
    )
    for name, text in files.items():
        write(place / name, text)
    write(place / "InRelease", signer.sign(release).encode())
    return [*files, "InRelease"]


def _rpm_index(place: Path, signer: Signer) -> list[str]:
    rpm_repositories.write_index(place)
    index = place / "repodata/repomd.xml"
    write(place / "repodata/repomd.xml.asc", signer.detached(index.read_bytes()).encode())
    return sorted(str(path.relative_to(place)) for path in (place / "repodata").iterdir())


def _manifest(order: SnapshotOrder, written: Sequence[tuple[Repository, dict[str, str]]]) -> str:
    systems: dict[str, dict[str, Any]] = {}
    for one, digests in written:
        systems.setdefault(one.system, {})[one.kind] = {
            "manager": one.manager,
            "packages": len(one.packages),
            "bytes": sum(package.size for package in one.packages),
            "files": digests,
            "origins": list(one.origins),
        }
    made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {"format": FORMAT, "cluster": order.cluster, "name": order.name, "made": made, "systems": systems}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
