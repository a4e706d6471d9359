# SPDX-License-Identifier: GPL-3.0-or-later
"""Determine which files a running unit has read: files from before its start, and files that it has reloaded.

A file's time of change (ctime) is compared with the start of the unit. Two cases are recorded in ``/var/lib/bedplate/units.json`` since no
comparison shows them: files that were reloaded without a start, and files written before the clock was set back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...common.files import atomic_write

FILE_NAME = "units.json"


class Applied:
    """Record of one machine; it is written only if the files' times do not show that a unit has read them."""

    def __init__(self, directory: Path) -> None:
        """Read the record; without a readable one, a unit may be restarted or reloaded once more than needed."""
        self._path = directory / FILE_NAME
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))["applied"]
            self._known = {str(unit): dict(files) for unit, files in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._known = {}

    def changed(self, unit: str, started: float, paths: Iterable[str]) -> list[str]:
        """Return the files that changed after a unit read them; `started` is a time of the monotonic clock.

        The inode's time counts, since a package sets a file's modification time to its build date.
        """
        if started <= 0:
            return []
        start = int((time.time() - time.monotonic() + started) * 1e9)
        known = self._known.get(unit, {})
        return [path for path in paths if (now := _changed_at(path)) > start and known.get(path) != now]

    def unread(self, unit: str, paths: Iterable[str]) -> list[str]:
        """Return the files whose present state is not recorded as reloaded by a unit.

        The start of the unit does not count: slurmctld reads its files then, and its nodes still have the old ones.
        """
        known = self._known.get(unit, {})
        return [path for path in paths if (now := _changed_at(path)) and known.get(path) != now]

    def remember(self, unit: str, stamps: Mapping[str, int]) -> None:
        """Record that a unit has read files in the state that `stamps_of` saw."""
        known = self._known.get(unit, {})
        if any(known.get(path) != changed for path, changed in stamps.items()):
            self._known[unit] = {**known, **stamps}
            self._save()

    def remember_start(self, unit: str, paths: Iterable[str]) -> None:
        """Record, of the files that a unit was just started with, all with a time in the future."""
        self.remember(unit, {path: changed for path, changed in stamps_of(paths).items() if changed > time.time_ns()})

    def _save(self) -> None:
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        text = json.dumps({"version": 1, "applied": self._known}, indent=1, sort_keys=True)
        atomic_write(self._path, text, mode=0o600)


def stamps_of(paths: Iterable[str]) -> dict[str, int]:
    """Return the time of change of each existing file."""
    return {path: changed for path in paths if (changed := _changed_at(path))}


def _changed_at(path: str) -> int:
    """Return when a file changed, in nanoseconds since 1970; 0 if it does not exist."""
    try:
        return Path(path).stat().st_ctime_ns
    except OSError:
        return 0
