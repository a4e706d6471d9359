# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a backup: a tar with a folder for each host, and in it encrypted members and their manifest."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from .manifest import FILE, SUFFIX

_BLOCK = 1 << 20


class ContainerError(Exception):
    """A file is not a whole backup, or cannot be written; the text is complete."""


def write(path: Path, members: Mapping[str, Path]) -> None:
    """Write a file of mode 0600 with these members, name -> file, and only then give it its name. Raises ContainerError."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for name in sorted(members):
                    with members[name].open("rb") as source:
                        entry = tar.gettarinfo(arcname=name, fileobj=source)
                        entry.mode, entry.uid, entry.gid, entry.uname, entry.gname = 0o600, 0, 0, "", ""
                        tar.addfile(entry, source)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except (OSError, tarfile.TarError) as error:
        part.unlink(missing_ok=True)
        raise ContainerError(f"{path}: {error}") from error


def unpack(path: Path, folder: Path, hosts: Iterable[str] = ()) -> dict[str, dict[str, Path]]:
    """Write the encrypted members into a folder, of all hosts or of these; return host -> name -> file. Raises ContainerError."""
    found: dict[str, dict[str, Path]] = {}
    wanted = set(hosts)
    try:
        if not path.is_file():
            raise ContainerError(f"{path}: file not found")
        if not _has_end(path):
            raise ContainerError(f"{path} is cut short, or not a backup: it has no end mark")
        with tarfile.open(path, mode="r:") as tar:
            for entry in tar:
                host, _slash, name = entry.name.partition("/")
                if not entry.isfile() or not name.endswith(SUFFIX) or "/" in name or host in ("", ".", ".."):
                    raise ContainerError(f"{path} has {entry.name!r}, which is not a member of a backup")
                if wanted and host not in wanted:
                    continue
                target = folder / host / name
                target.parent.mkdir(mode=0o700, exist_ok=True)
                source = tar.extractfile(entry)
                descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as stream:
                    if source:
                        shutil.copyfileobj(source, stream, _BLOCK)
                found.setdefault(host, {})[name] = target
    except (OSError, tarfile.TarError) as error:
        raise ContainerError(f"{path} cannot be read: {error}") from error
    if missing := [host for host, members in found.items() if FILE not in members]:
        raise ContainerError(f"{path} has no manifest of {', '.join(missing)}")
    if not found:
        raise ContainerError(f"{path} has no members")
    return found


def names(path: Path) -> list[str]:
    """Return the names of the members of a whole file. Raises ContainerError."""
    try:
        if not _has_end(path):
            raise ContainerError(f"{path} is cut short, or not a backup: it has no end mark")
        with tarfile.open(path, mode="r:") as tar:
            found = tar.getnames()
    except (OSError, tarfile.TarError) as error:
        raise ContainerError(f"{path} cannot be read: {error}") from error
    if not any(one.endswith(f"/{FILE}") for one in found):
        raise ContainerError(f"{path} has no manifest")
    return found


def _has_end(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        if stream.tell() < 1024:
            return False
        stream.seek(-1024, os.SEEK_END)
        return stream.read(1024) == b"\0" * 1024
