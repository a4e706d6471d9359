# SPDX-License-Identifier: GPL-3.0-or-later
"""All packages of dnf repositories: `dnf reposync` fetches them and checks their signatures, `createrepo_c` writes the index."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command

from ...cluster import SnapshotOrigin
from .. import downloads
from ..mirror_model import MirrorError
from .snapshot_model import SnapshotPackage, unique

_DAY, _SECONDS = 86400.0, 3600.0
_QUERY = "%{NAME}\\t%|EPOCH?{%{EPOCH}}:{0}|:%{VERSION}-%{RELEASE}\\t%{ARCH}\\n"


def packages_of(directory: Path, system: str, origins: Sequence[SnapshotOrigin]) -> list[SnapshotPackage]:
    """Return all packages of these origins, fetched below `directory`, which keeps them between runs.

    MirrorError: an origin that cannot be read, a package that is not signed by the origin's key, one name and version with two contents.
    """
    rows = enumerate(origins)
    return unique(system, (one for number, origin in rows for one in _fetched(directory / str(number), origin)))


def write_index(directory: Path) -> None:
    """Write repodata of a folder of packages; the same packages give the same bytes. MirrorError: createrepo_c failed."""
    options = ["--quiet", "--no-database", "--simple-md-filenames", "--revision=1", "--set-timestamp-to-revision"]
    done = command.run(["createrepo_c", *options, str(directory)], _SECONDS)
    if done.code != 0:
        raise MirrorError([f"createrepo_c {directory}: {done.error_line}"])


def _fetched(directory: Path, origin: SnapshotOrigin) -> list[SnapshotPackage]:
    """Return the packages of an origin, fetched and with the signatures of its key."""
    root = _root(directory, origin)
    text = f"[origin]\nname=origin\nbaseurl={origin.url}\nenabled=1\ngpgcheck=1\ngpgkey={Path(origin.key).as_uri()}\n"
    (directory / "repos.d").mkdir(exist_ok=True)
    (directory / "repos.d/origin.repo").write_text(text)
    settings = [
        f"--installroot={root}",
        f"--releasever={origin.system.rpartition('-')[2]}",
        f"--setopt=reposdir={directory}/repos.d",
        f"--setopt=cachedir={directory}/cache",
        "--setopt=metadata_expire=1",
    ]
    packages = directory / "packages"
    # --delete: what the origin no longer has is not of this snapshot; the pool keeps it for earlier ones.
    words = ["--repoid=origin", "--gpgcheck", "--norepopath", "--delete", f"--download-path={packages}"]
    done = command.run(["dnf", "--quiet", *settings, "reposync", *words], _DAY)
    if done.code != 0:
        raise MirrorError([f"{origin.url}: dnf reposync: {done.error_line}"])
    return [_package(path) for path in sorted(packages.rglob("*.rpm"))]


def _root(directory: Path, origin: SnapshotOrigin) -> Path:
    """Return a root whose rpm trusts the origin's key alone. MirrorError: the key cannot be read."""
    root = directory / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    done = command.run(["rpmkeys", f"--root={root}", "--import", origin.key], _SECONDS)
    if done.code != 0:
        raise MirrorError([f"{origin.url}: {origin.key} cannot be read by rpm: {done.error_line}"])
    return root


def _package(path: Path) -> SnapshotPackage:
    done = command.run(
        ["rpm", "--query", "--nosignature", "--nodigest", "--queryformat", _QUERY, "--package", str(path)], _SECONDS
    )
    row = done.stdout.strip().split("\t")
    if done.code != 0 or len(row) != 3:
        raise MirrorError([f"{path}: rpm cannot read it: {done.error_line}"])
    sha256 = downloads.sha256_of(path)
    file = f"packages/{row[0]}-{row[1].partition(':')[2]}.{row[2]}.{sha256[:8]}.rpm"
    return SnapshotPackage(row[0], row[1], row[2], sha256, path.stat().st_size, file, path.as_uri())
