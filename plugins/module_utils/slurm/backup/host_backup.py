# SPDX-License-Identifier: GPL-3.0-or-later
"""Back up one host while Slurm runs: state, database, keys and configuration, each straight through gpg into a file.

The order matters. A job of the state may have an index of the database, so the state is copied first: every index in it is then in the
dump. The other way round slurmctld would later complete a row that another job has got.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...common import command
from ...common.command import Outcome
from ...common.release import RELEASE
from . import container, job_list, manifest
from .crypt import KeyFolder, Sink
from .dump_rows import DumpRows
from .job_list import BackedUpJobs
from .live_copy import LiveState
from .manifest import DATABASE, FILE, FILES, STATE, SUFFIX, Manifest
from .pipes import Program

KEPT = ("etc/slurm", "etc/munge/munge.key")
"""Keys and configuration of a host, below its root."""
_VERSION = ("slurmctld", "-V"), ("slurmdbd", "-V")
_DUMP = ("mariadb-dump", "--single-transaction", "--quick", "--routines", "--triggers")
_RELEASE = re.compile(r"slurm\S* (\d+\.\d+\S*)")
_QUICK = 30.0


class BackupError(Exception):
    """A host cannot be backed up; the text is complete."""


@dataclass(frozen=True)
class Settings:
    """Hold the data of a host that is backed up, and the folder of its backups.

    `recipient`: file with an OpenPGP public key. `state`, `database`: path of StateSaveLocation and name of the database, "" for none.
    `extra`: further files of this host, such as the deployed copy of the cluster file. `seconds`: how long each member may take. `keep`:
    how many backups stay in `path`.
    """

    cluster: str
    host: str
    recipient: str
    path: str
    state: str = ""
    database: str = ""
    user: str = "slurm"
    seconds: int = 7200
    keep: int = 7
    extra: Sequence[str] = field(default_factory=tuple)


class HostBackup:
    """One backup of this host."""

    def __init__(self, settings: Settings, run: Callable[..., Outcome] = command.run, root: Path = Path("/")) -> None:
        self._settings = settings
        self._run = run
        self._root = root
        self._jobs: BackedUpJobs | None = None

    def take(self) -> tuple[Path, Manifest]:
        """Write the file of the backup; return it and its manifest. Raises BackupError or an error of a part: then no file is left."""
        chosen = self._settings
        folder = Path(chosen.path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            raise BackupError(f"{folder} is open to others (mode {folder.stat().st_mode & 0o7777:04o}); allowed: 0700")
        at = int(time.time())
        # Only encrypted files are written here.
        work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder))
        try:
            with KeyFolder() as keys:
                members = {}
                for name, write in self._members():
                    with keys.encrypted(work / f"{name}{SUFFIX}", Path(chosen.recipient), chosen.seconds) as sink:
                        counts = write(sink)
                    members[name] = {**counts, **sink.facts()}
                found = Manifest(chosen.cluster, chosen.host, at, self._release(), self._jobs, members, RELEASE)
                with keys.encrypted(work / FILE, Path(chosen.recipient), _QUICK) as sink:
                    sink.write(found.text().encode())
            path = folder / manifest.file_name(chosen.cluster, chosen.host, at)
            container.write(path, {f"{chosen.host}/{one.name}": one for one in work.iterdir()})
            return path, found
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _members(self) -> list[tuple[str, Callable[[Sink], dict[str, Any]]]]:
        chosen = self._settings
        return [
            *([(STATE, self._state)] if chosen.state else []),
            *([(DATABASE, self._database)] if chosen.database else []),
            (FILES, self._files),
        ]

    def _state(self, sink: Sink) -> dict[str, Any]:
        chosen = self._settings
        state = LiveState(Path(chosen.state), chosen.user)
        state.wait_for_save()
        with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
            copied = state.copy(tar)
        # Without the list of jobs nothing could say later which of them a restored slurmctld would kill.
        self._jobs = job_list.read(copied.header.saved_at, self._run)
        return {"files": len(copied.files), "next_job": copied.header.next_id, "saved_at": copied.header.saved_at}

    def _database(self, sink: Sink) -> dict[str, Any]:
        chosen = self._settings
        rows = DumpRows()
        with Program([*_DUMP, chosen.database], chosen.seconds) as program:
            for data in program.chunks():
                rows.feed(data)
                sink.write(data)
            program.succeed()
        end = rows.finish()
        if not rows.is_complete():
            raise BackupError(f"the dump of {chosen.database} is cut short: it ends with {end[:80]!r}")
        if not rows.rows:
            raise BackupError(f"the dump of {chosen.database} has no tables")
        return {"rows": rows.rows}

    def _files(self, sink: Sink) -> dict[str, Any]:
        count = 0
        with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
            for name in (*KEPT, *(one.lstrip("/") for one in self._settings.extra)):
                for path in _files_below(self._root / name):
                    tar.add(path, arcname=str(path.relative_to(self._root)), recursive=False)
                    count += 1
        return {"files": count}

    def _release(self) -> str:
        """Return the installed release of Slurm, such as 24.11.5."""
        for argv in _VERSION:
            done = self._run(argv, _QUICK)
            # Debian's packages print another name.
            if done.code == 0 and (found := _RELEASE.match(done.stdout)):
                return found[1]
        raise BackupError("neither slurmctld nor slurmdbd reports its release on this host")


def _files_below(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(one for one in path.rglob("*") if one.is_file() and not one.is_symlink())
    return [path] if path.is_file() else []
