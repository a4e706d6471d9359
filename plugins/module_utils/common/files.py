# SPDX-License-Identifier: GPL-3.0-or-later
"""Write files atomically: a reader sees the old file or the whole new file.

Each file is written beside its target and synced to the disk before it is renamed. No other user can read it before owner and mode are set.
No symbolic link that another user created is followed.
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
# A file name has at most 255 bytes.
_NAME = 200


def atomic_write(
    path: Path, data: bytes | str, *, mode: int | None = None, owner: tuple[int, int] | None = None, sync: bool = True
) -> None:
    """Replace a file in one step. Without `mode`, an existing file keeps its mode and owner, and a new file gets 0644.

    `owner` is (uid, gid); the default is that of this process. A text is written as UTF-8. Without `sync` a power failure may lose the
    file, which is acceptable for a file in memory. Raises OSError: then nothing has changed, and no temporary file is left.
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
    """Give a complete file a second name on the same file system, in one step and without a copy."""
    temporary = temporary_of(path)
    os.link(source, temporary)
    try:
        temporary.chmod(mode)
    except BaseException:
        temporary.unlink()
        raise
    _rename(temporary, path)


def write_new(path: Path, data: bytes, mode: int) -> bool:
    """Write a file that does not exist yet; return False if it exists. Of several concurrent callers, one succeeds."""
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
    """Write a file under a new name. Raises FileExistsError if the name exists, even as a dangling link.

    `context_of` is a file whose SELinux context is copied. Without `strict`, a file system that does not support owners is not an error.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
            stream.flush()
            if context_of:
                with suppress(OSError):  # no SELinux here, or the old file does not exist
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
    """Return a new name beside a path for a temporary file that will replace it."""
    return path.with_name(f".{path.name[:_NAME]}.{secrets.token_hex(4)}.tmp")


def temporaries_of(path: Path) -> list[Path]:
    """Return the temporary files that killed runs left beside a path. Raises OSError if the directory cannot be read."""
    pattern = re.compile(rf"\.{re.escape(path.name[:_NAME])}\.[0-9a-f]{{8}}\.tmp\Z")
    return [one for one in path.parent.iterdir() if pattern.match(one.name)]


def sync_directory(directory: Path) -> None:
    """Sync the names in a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that do not support it
            raise
    finally:
        os.close(descriptor)


def _settle(directory: Path) -> None:
    """Sync a new name to the disk. The file has its name already, so errors are ignored."""
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
    """Return mode and owner of the existing file, or the defaults of a new file."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return _NEW, None
    return there.st_mode & 0o7777, (there.st_uid, there.st_gid)
