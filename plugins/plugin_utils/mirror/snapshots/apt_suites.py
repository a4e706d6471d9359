# SPDX-License-Identifier: GPL-3.0-or-later
"""All packages of apt repositories, as the real apt has verified their indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command

from .. import downloads, packages_files
from ..apt_root import AptRoot
from ..mirror_model import MirrorError, MirrorOrigin, MirrorPackage, MirrorSystem
from ..packages_files import Fields
from .snapshot_model import SnapshotPackage, unique

_SECONDS = 600.0
_FORMAT = "$(REPO_URI)\t$(FILENAME)"


def packages_of(
    directory: Path, system: str, architecture: str, origins: Sequence[MirrorOrigin]
) -> list[SnapshotPackage]:
    """Return all packages of these origins. `directory` keeps apt's lists between runs, `architecture` is dpkg's.

    MirrorError: an origin that cannot be reached, or is not signed by its key; one name and version with two contents.
    """
    root = AptRoot(directory, MirrorSystem(system, (), architecture), origins)
    root.prepare()
    root.update()
    return unique(system, (_package(url, fields) for url, fields in _records(root)))


def _records(root: AptRoot) -> Iterator[tuple[str, Fields]]:
    """Yield the address of the repository and the paragraph of each package."""
    listed = _run(root, ["apt-get", "indextargets", "--format", _FORMAT, "Created-By: Packages"])
    for line in sorted(set(listed.splitlines())):
        url, _tab, name = line.partition("\t")
        if not Path(name).exists():
            continue  # a component that the origin does not have for this architecture
        for fields in packages_files.parse(_run(root, [downloads.HELPER, "cat-file", name])):
            packages_files.check(fields)
            yield url, fields


def _package(url: str, fields: Fields) -> SnapshotPackage:
    address = f"{url.rstrip('/')}/{quote(fields.get('Filename', '').removeprefix('./'), safe='/:+~,=@')}"
    one = MirrorPackage(
        name=fields["Package"],
        version=fields["Version"],
        architecture=fields["Architecture"],
        url=address,
        origin=url,
        size=int(fields["Size"]),
        sha256=fields["SHA256"],
        paragraph="",
    )
    text = packages_files.text_of(fields, one.file)
    return SnapshotPackage(*one.identity, one.sha256, one.size, one.file, address, text)


def _run(root: AptRoot, argv: Sequence[str]) -> str:
    done = command.run(["env", f"APT_CONFIG={root.config}", *argv], _SECONDS)
    if done.code != 0:
        raise MirrorError([f"{root.system.name}: {argv[0]} {argv[1]}: {done.error_line}"])
    return done.stdout
