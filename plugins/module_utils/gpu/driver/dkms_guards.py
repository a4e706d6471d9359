# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done to a machine while DKMS has to do something, or nothing, and is undone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# While this file is there DKMS builds nothing by itself: neither for a kernel whose headers come, nor for a package.
NO_AUTOINSTALL = "etc/dkms/no-autoinstall"
_OURS = "bedplate is installing headers of a kernel; this file goes as soon as they are there\n"


@contextmanager
def dkms_paused(file: Path) -> Iterator[None]:
    """Keep DKMS from building by itself meanwhile; where the site wants that for good, it stays so."""
    if file.exists():
        yield
        return
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    file.write_text(_OURS)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def header_link(build: Path, tree: Path | None) -> Iterator[None]:
    """Lay the link that a kernel brings, by which makefiles find its headers, where it is yet to come."""
    if build.exists() or tree is None:
        yield
        return
    made = [path for path in (build.parent,) if not path.exists()]
    build.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    build.symlink_to(tree)
    try:
        yield
    finally:
        build.unlink(missing_ok=True)
        for path in made:
            path.rmdir()


def is_own_file(file: Path) -> bool:
    """Return whether the file is one that `dkms_paused` wrote, and not the site's own."""
    return file.exists() and file.read_text(errors="replace") == _OURS


def resume_dkms(file: Path) -> None:
    """Let DKMS build again, where a run that was killed has left it otherwise."""
    if is_own_file(file):
        file.unlink()
