# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what a node showed before anybody acts on it: a folder per finding, `<UTC time>-<check>`, with an index beside them.

A bundle has kernel.log (the last records), readings.json, findings.json, jobs.txt (the ring), and later devices.json: PCI configuration and
counters of HCAs, read by a child, because such a read may hang. The digest of a bundle goes into the report, so that both can be matched.
A full disk is a problem to report, and stops nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...common.files import atomic_write
from .clock import Moment, utc

INDEX, HEAD = "index.json", "bundle.json"
KEPT_ALWAYS = 20
"""Newest bundles that no age removes: a clock that jumps ahead would make all of them old."""
_DAY = 86400
_PART = ".part"
_NAME = re.compile(r"(\d{8}T\d{6}Z|invalid)-[a-z0-9-]+(\.\d+)?\Z")
_UNSAFE = re.compile(r"[^a-z0-9-]+")
_MOST_SAME = 100


@dataclass(frozen=True)
class Bundle:
    """Hold a kept bundle: its folder and the first eight digits of its digest."""

    folder: Path
    digest: str


class EvidenceStore:
    """Keep bundles in a folder for `days` and within `size` bytes; the oldest go first. `problem`: why the last one was not kept."""

    def __init__(self, folder: Path, days: int, size: int) -> None:
        """Use a folder, which is made with the first bundle. Parts of bundles that a killed agent left are removed."""
        self.folder, self.days, self.size = folder, days, size
        self.problem = ""
        for one in _names(folder):
            if one.endswith(_PART):
                shutil.rmtree(folder / one, ignore_errors=True)

    def keep(self, check: str, now: Moment, files: Mapping[str, bytes], head: Mapping[str, Any]) -> Bundle | None:
        """Write a bundle in one step. Return None if that fails, with `problem`. `head`: words for people, such as class and jobs."""
        digest = digest_of(files)
        part = self.folder / f"{digest}{_PART}"
        try:
            self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(mode=0o750)
            about = {"check": check, "time": utc(now.time), "uptime": round(now.uptime, 1), "digest": digest, **head}
            for name, data in {**files, HEAD: _json(about)}.items():
                (part / name).write_bytes(data)
            target = self._free(f"{utc(now.time, '%Y%m%dT%H%M%SZ')}-{_UNSAFE.sub('-', check.lower()).strip('-')[:60]}")
            part.rename(target)
            self.problem = ""
        except (OSError, ValueError) as error:
            shutil.rmtree(part, ignore_errors=True)
            self.problem = f"evidence of {check} was not kept: {getattr(error, 'strerror', '') or error}"
            return None
        self.prune(now.time)
        return Bundle(target, digest)

    def add(self, folder: Path, name: str, data: bytes) -> None:
        """Add a file to a bundle; a bundle that was removed stays removed."""
        try:
            if folder.is_dir():
                atomic_write(folder / name, data, mode=0o640, sync=False)
        except OSError as error:
            self.problem = f"{name} was not added to the evidence: {error.strerror or error}"

    def prune(self, time: float) -> None:
        """Remove bundles that are too old, and the oldest beyond the size; write the index. The newest bundle stays."""
        names = sorted(name for name in _names(self.folder) if _NAME.match(name))
        sizes = {name: _size(self.folder / name) for name in names}
        total = sum(sizes.values())
        oldest = utc(time - self.days * _DAY, "%Y%m%dT%H%M%SZ")
        for number, name in enumerate(names[:-1]):
            is_old = len(names) - number > KEPT_ALWAYS and name < oldest
            if is_old or total > self.size:
                shutil.rmtree(self.folder / name, ignore_errors=True)
                total -= sizes[name]
        self._write_index()

    def _write_index(self) -> None:
        rows = []
        for name in sorted(name for name in _names(self.folder) if _NAME.match(name)):
            with suppress(OSError, ValueError, TypeError):
                rows.append({"folder": name, **json.loads((self.folder / name / HEAD).read_bytes())})
        with suppress(OSError):
            atomic_write(self.folder / INDEX, _json(rows), mode=0o640, sync=False)

    def _free(self, name: str) -> Path:
        """Return the path of a name, with a number if it is in use. OSError: a hundred bundles in one second."""
        for number in range(_MOST_SAME):
            path = self.folder / (f"{name}.{number}" if number else name)
            if not path.exists():
                return path
        raise OSError(f"{name}: too many bundles")


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return the first eight digits of the SHA-256 over names and contents."""
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(f"{name} {hashlib.sha256(files[name]).hexdigest()}\n".encode())
    return whole.hexdigest()[:8]


def bundle_files(
    records: Sequence[bytes], readings: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]], ring: str
) -> dict[str, bytes]:
    """Return the files of a bundle by name."""
    return {
        "kernel.log": b"".join(records),
        "readings.json": _json(list(readings)),
        "findings.json": _json(list(findings)),
        "jobs.txt": ring.encode(),
    }


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, default=str) + "\n").encode()


def _names(folder: Path) -> list[str]:
    try:
        return [one.name for one in folder.iterdir()]
    except OSError:
        return []


def _size(folder: Path) -> int:
    total = 0
    for name in _names(folder):
        with suppress(OSError):
            total += (folder / name).stat().st_size
    return total
