# SPDX-License-Identifier: GPL-3.0-or-later
"""Copy StateSaveLocation into a tar stream while slurmctld runs.

slurmctld writes NAME.new, removes NAME, and links NAME.new as NAME (src/common/state_save.c): a file that is open does not change, and for
a moment no file has the name. job_state comes first: a job that it has then has its script in the copy, unless it has ended since.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ...common.as_user import AsUser, uid_of
from . import job_header
from .job_header import HeaderError, JobHeader

JOB_STATE = "job_state"
# Earlier and unfinished versions of the files, and marks of bedplate and slurmctld that mean nothing elsewhere.
_LEFT_OUT = (".old", ".new", ".tmp", ".lock")
_NEVER = ("heartbeat",)
_TRIES, _PAUSE = 20, 0.1  # seconds
_SAVED = 12.0
"""Seconds in which slurmctld saves a change: SAVE_MAX_WAIT is 5."""


class CopyError(Exception):
    """The directory cannot be copied; the text is complete."""


@dataclass
class Copied:
    """Files of a copy with their bytes, and the header of its job_state."""

    header: JobHeader
    files: dict[str, int] = field(default_factory=dict)


class LiveState:
    """The state of a slurmctld, read as its user: on NFS root may not be able to."""

    def __init__(
        self,
        path: Path,
        user: str = "slurm",
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._user = user
        self._sleep, self._clock = sleep, clock

    def wait_for_save(self) -> None:
        """Wait until job_state was written after this call, or slurmctld had nothing to write. Raises CopyError."""
        begun = self._clock()
        while self._clock() - begun < _SAVED:
            # Whole seconds: a job that started in the same second may be missing.
            if self.header().saved_at > int(begun):
                return
            self._sleep(0.5)

    def header(self) -> JobHeader:
        """Return the header of job_state. Raises CopyError."""
        with AsUser(uid_of(self._user)), self._open(JOB_STATE) as stream:
            return _header(stream.read(job_header.SIZE))

    def copy(self, tar: tarfile.TarFile) -> Copied:
        """Add all files to a tar stream. Raises CopyError."""
        with AsUser(uid_of(self._user)):
            with self._open(JOB_STATE) as stream:
                data = stream.read()
                copied = Copied(_header(data))
                self._add(tar, JOB_STATE, os.fstat(stream.fileno()), data, copied)
            for name in self._names():
                if name != JOB_STATE:
                    self._one(tar, name, copied)
        return copied

    def _names(self) -> list[str]:
        found = []
        try:
            for folder, _names, names in os.walk(self.path, onerror=_raise):
                base = Path(folder).relative_to(self.path)
                found += [str(base / name) for name in names if not _is_left_out(name)]
        except OSError as error:
            raise CopyError(f"{self.path}: {error.strerror}") from error
        return sorted(found)

    def _one(self, tar: tarfile.TarFile, name: str, copied: Copied) -> None:
        # The script of a job goes with the job. A file of slurmctld itself is back in a moment.
        is_jobs = "/" in name
        if (self.path / name).is_symlink():
            return
        try:
            stream = (self.path / name).open("rb") if is_jobs else self._open(name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise CopyError(f"{self.path / name}: {error.strerror}") from error
        with stream:
            self._add(tar, name, os.fstat(stream.fileno()), stream.read(), copied)

    def _open(self, name: str) -> IO[bytes]:
        for _try in range(_TRIES):
            try:
                return (self.path / name).open("rb")
            except FileNotFoundError:
                self._sleep(_PAUSE)
            except OSError as error:
                raise CopyError(f"{self.path / name}: {error.strerror}") from error
        raise CopyError(
            f"{self.path} has no {name}" + ("" if name != JOB_STATE else ": it is not the state of a slurmctld")
        )

    @staticmethod
    def _add(tar: tarfile.TarFile, name: str, status: os.stat_result, data: bytes, copied: Copied) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mtime, entry.mode = len(data), int(status.st_mtime), status.st_mode & 0o7777
        tar.addfile(entry, io.BytesIO(data))
        copied.files[name] = len(data)


def _is_left_out(name: str) -> bool:
    return name.endswith(_LEFT_OUT) or name in _NEVER or name.startswith(".bedplate")


def _header(data: bytes) -> JobHeader:
    try:
        return job_header.read(data)
    except HeaderError as error:
        raise CopyError(str(error)) from error


def _raise(error: OSError) -> None:
    raise error
