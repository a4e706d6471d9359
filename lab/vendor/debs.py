# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins as .deb files, byte for byte the same in every build. Written here: dpkg-deb is a process for each of hundreds."""

from __future__ import annotations

import gzip
import io
import platform
import tarfile
from collections.abc import Iterable
from pathlib import PurePosixPath

from lab.vendor.standins import Content, StandIn

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# 2026-01-01: a date that is nobody's.
WHEN = 1767225600


def architecture() -> str:
    """Return this machine's architecture as dpkg calls it."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def file_name(package: StandIn) -> str:
    """Return the name of a package's file; without the epoch, as everywhere."""
    version = package.version.partition(":")[2] or package.version
    return f"{package.name}_{version}_{architecture()}.deb"


def control(package: StandIn) -> str:
    """Return a package's fields, as they are in the package and in the repository's index."""
    lists = {
        "Pre-Depends": package.pre_depends,
        "Depends": package.depends,
        "Recommends": package.recommends,
        "Provides": package.provides,
        "Conflicts": package.conflicts,
        "Breaks": package.breaks,
        "Replaces": package.replaces,
    }
    lines = [
        f"Package: {package.name}",
        f"Version: {package.version}",
        f"Architecture: {architecture()}",
        "Maintainer: The bedplate authors <bedplate@example.org>",
        *(f"{field}: {', '.join(values)}" for field, values in lists.items() if values),
        "Section: misc",
        "Priority: optional",
        f"Description: {package.name}: stand-in for tests, not NVIDIA's software",
    ]
    return "\n".join(lines) + "\n"


def deb(package: StandIn) -> bytes:
    """Return the package as a .deb file."""
    meta = {"control": Content(control(package))}
    if package.conffiles:
        meta["conffiles"] = Content("".join(f"/{path}\n" for path in package.conffiles))
    meta |= {name: Content(text, 0o755) for name, text in package.scripts.items()}
    members = (
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", _packed(meta.items())),
        ("data.tar.gz", _packed(package.files.items())),
    )
    return b"!<arch>\n" + b"".join(_member(name, data) for name, data in members)


def _member(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{WHEN:<12}{0:<6}{0:<6}{0o100644:<8o}{len(data):<10}`\n"
    return head.encode() + data + b"\n" * (len(data) % 2)


def _packed(files: Iterable[tuple[str, Content]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        files = sorted(files)
        folders = {folder for path, _content in files for folder in PurePosixPath(path).parents}
        for folder in sorted(folders | {PurePosixPath(".")}):
            archive.addfile(_entry("./" if str(folder) == "." else f"./{folder}/", 0o755, tarfile.DIRTYPE))
        for path, content in files:
            if content.link:
                entry = _entry(f"./{path}", content.mode, tarfile.SYMTYPE)
                entry.linkname = content.text
                archive.addfile(entry)
            else:
                entry = _entry(f"./{path}", content.mode, tarfile.REGTYPE)
                data = content.text.encode()
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), 1, mtime=0)


def _entry(name: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.mtime, entry.uname, entry.gname = mode, kind, WHEN, "root", "root"
    return entry
