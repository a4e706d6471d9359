# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files a running unit has read: those that changed before it was started, and those it was told to read again.

A file's time of change (ctime) is compared with the start of the unit. What no comparison can tell is kept in
``/var/lib/bedplate/units.json``: files that were read again without a start, and files from a clock that was set back since.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...common.files import atomic_write

FILE_NAME = "units.json"


class Applied:
    """The record of one machine; it is written only when something was applied that its times do not show."""

    def __init__(self, directory: Path) -> None:
        """Read the record; without a readable one, a unit may be restarted or reloaded once more than needed."""
        self._path = directory / FILE_NAME
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))["applied"]
            self._known = {str(unit): dict(files) for unit, files in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._known = {}

    def changed(self, unit: str, started: float, paths: Iterable[str]) -> list[str]:
        """Return the files that a unit, started at a moment of the monotonic clock, has not read as they are now.

        The inode's time counts, since a package gives a file the date on which it was built.
        """
        if started <= 0:
            return []
        start = int((time.time() - time.monotonic() + started) * 1e9)
        known = self._known.get(unit, {})
        return [path for path in paths if (now := _changed_at(path)) > start and known.get(path) != now]

    def unread(self, unit: str, paths: Iterable[str]) -> list[str]:
        """Return the files of which it is not on record that a unit was told to read them as they are now.

        The start of the unit does not count: slurmctld reads its files then, and its nodes still have the old ones.
        """
        known = self._known.get(unit, {})
        return [path for path in paths if (now := _changed_at(path)) and known.get(path) != now]

    def remember(self, unit: str, stamps: Mapping[str, int]) -> None:
        """Record that a unit has read files as they were when `stamps_of` looked."""
        known = self._known.get(unit, {})
        if any(known.get(path) != changed for path, changed in stamps.items()):
            self._known[unit] = {**known, **stamps}
            self._save()

    def remember_start(self, unit: str, paths: Iterable[str]) -> None:
        """Record, of the files that a unit has just been started with, those whose time is still to come."""
        self.remember(unit, {path: changed for path, changed in stamps_of(paths).items() if changed > time.time_ns()})

    def _save(self) -> None:
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        text = json.dumps({"version": 1, "applied": self._known}, indent=1, sort_keys=True)
        atomic_write(self._path, text, mode=0o600)


def stamps_of(paths: Iterable[str]) -> dict[str, int]:
    """Return when each file changed, of those that are there."""
    return {path: changed for path in paths if (changed := _changed_at(path))}


def _changed_at(path: str) -> int:
    """Return when a file changed, in nanoseconds since 1970; 0 when it is not there."""
    try:
        return Path(path).stat().st_ctime_ns
    except OSError:
        return 0
