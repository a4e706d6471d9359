# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the configuration of Slurm and bedplate's records of a host before an upgrade, and restore them on the way back."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

from .state_archive import ArchiveError, contents, trust

PATHS = (
    "etc/slurm",
    "etc/default/slurmctld",
    "etc/default/slurmdbd",
    "etc/apt/preferences.d/bedplate-slurm",
    "usr/local/lib/bedplate/slurm",
    "var/lib/bedplate/files.json",
    "var/lib/bedplate/holds.json",
)
"""Paths below the root of files that the parts of controllers and database write; directories with all that is in them."""


class KeptError(Exception):
    """Files cannot be kept or restored; the text is complete."""


def keep(archive: Path, root: Path = Path("/")) -> int:
    """Write the files into an archive of mode 0600 that does not exist yet, and return their number. Raises KeptError."""
    part = archive.with_name(archive.name + ".part")
    part.unlink(missing_ok=True)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for name in PATHS:
                    if (root / name).exists():
                        tar.add(root / name, arcname=name)
                count = len(tar.getmembers())
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(archive)
    except (OSError, tarfile.TarError) as error:
        raise KeptError(f"{archive}: {error}") from error
    return count


def restore(archive: Path, root: Path = Path("/")) -> int:
    """Restore the files, and remove newer ones; return their number. Raises KeptError before anything is removed."""
    try:
        contents(archive)  # to its end: one that is cut short would remove files that it does not have
        with tarfile.open(archive, mode="r:") as tar:
            members = tar.getmembers()
            for name in PATHS:
                path = root / name
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.exists():
                    path.unlink()
            trust(tar)
            tar.extractall(root)
    except (OSError, tarfile.TarError, ArchiveError) as error:
        raise KeptError(f"{archive} cannot be restored: {error}") from error
    return len(members)
