# SPDX-License-Identifier: GPL-3.0-or-later
"""Change a machine while DKMS must or must not build, and undo the change afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# While this file exists, DKMS builds nothing automatically: neither for new kernel headers, nor for a package.
NO_AUTOINSTALL = "etc/dkms/no-autoinstall"
_OURS = "bedplate is installing headers of a kernel; it removes this file afterwards\n"


@contextmanager
def dkms_paused(file: Path) -> Iterator[None]:
    """Pause DKMS's automatic builds; if the site has disabled them permanently, they stay disabled."""
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
    """Create the link to the kernel headers that a kernel package contains and that makefiles use, until the kernel is installed."""
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
    """Return whether `dkms_paused` wrote this file, and not the site."""
    return file.exists() and file.read_text(errors="replace") == _OURS


def resume_dkms(file: Path) -> None:
    """Resume DKMS's automatic builds if a killed run has left them paused."""
    if is_own_file(file):
        file.unlink()
