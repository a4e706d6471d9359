# SPDX-License-Identifier: GPL-3.0-or-later
"""Write files so that every reader finds one whole.

Each is written beside its target, is on the disk before it has its name, and is for nobody else to read before owner and mode are right.
Nothing follows a link that somebody laid there.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

_NEW = 0o644
_SELINUX = "security.selinux"
# A name may have 255 bytes.
_NAME = 200


def atomic_write(
    path: Path, data: bytes | str, *, mode: int | None = None, owner: tuple[int, int] | None = None, sync: bool = True
) -> None:
    """Replace a file in one step. Without `mode` it keeps mode and owner of the file that is there, and a new one gets 0644.

    `owner` is (uid, gid), this process's by default. A text is written as UTF-8. Without `sync` a power failure may lose the file, which
    is of no matter in memory. OSError: nothing has changed, and nothing is left behind.
    """
    strict = mode is not None
    if mode is None:
        mode, kept = _attributes(path)
        owner = owner or kept
    temporary = temporary_of(path)
    create(temporary, data, mode, owner=owner, context_of=path, strict=strict, sync=sync)
    _rename(temporary, path)
    if sync:
        _settle(path.parent)


def atomic_link(path: Path, target: str) -> None:
    """Replace a path by a symbolic link in one step."""
    temporary = temporary_of(path)
    temporary.symlink_to(target)
    _rename(temporary, path)
    _settle(path.parent)


def atomic_place(source: Path, path: Path, mode: int) -> None:
    """Give a whole file of the same file system one more name, in one step and without a copy."""
    temporary = temporary_of(path)
    os.link(source, temporary)
    try:
        temporary.chmod(mode)
    except BaseException:
        temporary.unlink()
        raise
    _rename(temporary, path)


def write_new(path: Path, data: bytes, mode: int) -> bool:
    """Write a file that does not exist yet; return False where it does. Of many that do this at once, one wins."""
    temporary = temporary_of(path)
    create(temporary, data, mode)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    _settle(path.parent)
    return True


def create(
    path: Path,
    data: bytes | str,
    mode: int,
    *,
    owner: tuple[int, int] | None = None,
    context_of: Path | None = None,
    strict: bool = True,
    sync: bool = True,
) -> None:
    """Write a file under a new name. FileExistsError: something has that name, a link that leads nowhere included.

    `context_of` is a file whose SELinux context it gets. Without `strict`, a file system that knows no owners is no error.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
            stream.flush()
            if context_of:
                with suppress(OSError):  # no SELinux here, or no old file
                    os.setxattr(descriptor, _SELINUX, os.getxattr(context_of, _SELINUX, follow_symlinks=False))
            try:
                if owner and owner != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, *owner)
                os.fchmod(descriptor, mode)
            except PermissionError:
                if strict:
                    raise
            if sync:
                os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def temporary_of(path: Path) -> Path:
    """Return a new name beside a path, for what is to replace it."""
    return path.with_name(f".{path.name[:_NAME]}.{secrets.token_hex(4)}.tmp")


def temporaries_of(path: Path) -> list[Path]:
    """Return what killed runs have left beside a path. OSError: its directory cannot be read."""
    pattern = re.compile(rf"\.{re.escape(path.name[:_NAME])}\.[0-9a-f]{{8}}\.tmp\Z")
    return [one for one in path.parent.iterdir() if pattern.match(one.name)]


def sync_directory(directory: Path) -> None:
    """Have the names in a directory on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot
            raise
    finally:
        os.close(descriptor)


def _settle(directory: Path) -> None:
    """Have a new name on the disk. It is there already, so no error here says otherwise."""
    with suppress(OSError):
        sync_directory(directory)


def _rename(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _attributes(path: Path) -> tuple[int, tuple[int, int] | None]:
    """Return mode and owner of the file that is there, or those of a new one."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return _NEW, None
    return there.st_mode & 0o7777, (there.st_uid, there.st_gid)
