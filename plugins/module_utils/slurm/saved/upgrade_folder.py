# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of one upgrade on a host: copies for the way back, and marks of the steps that are done.

Only root can read it: a dump has the names of all users and their jobs, and kept files have secrets.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...common.files import atomic_write

DUMP, STATE, FILES, PACKAGES = "database.sql", "state.tar", "files.tar", "packages"
"""Names in the folder: dump of the database, archive of StateSaveLocation, kept files, kept packages."""
DUMPED, ARCHIVED, INSTALLING, STARTED, SERVED, FINISHED = MARKS = (
    *("dumped", "archived", "installing", "started", "served", "finished"),
)
"""Marks, in the order of an upgrade. After `started` a daemon of the new release may have changed the data, and after `served` there is no
way back."""
RESTORING = {DUMPED: "restoring_database", ARCHIVED: "restoring_state"}
"""Mark of a copy -> mark while it is restored: a killed way back leaves half of the data."""
RESTORING_FILES = "restoring_files"
"""Mark while the kept files are restored."""
_MARKS = "marks.json"
_BACK = ".back"


class UpgradeFolder:
    """The folder `<base>/<from>-<to>`."""

    def __init__(self, base: Path, old: str, new: str) -> None:
        """`old` and `new` are releases, such as 24.11."""
        self.path = base / f"{old}-{new}"

    def make(self) -> bool:
        """Create the folder with mode 0700; return whether that changed anything."""
        existed = self.path.is_dir() and self.path.stat().st_mode & 0o777 == 0o700
        if not existed:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
        return not existed

    def marks(self) -> dict[str, Any]:
        """Return mark -> its facts, each with `at`, in seconds since 1970. Raises ValueError if the file is damaged."""
        try:
            found = json.loads((self.path / _MARKS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ValueError(f"{self.path / _MARKS}: {error.strerror}") from error
        if not isinstance(found, dict):
            raise ValueError(f"{self.path / _MARKS}: no mapping")
        return found

    def mark(self, name: str, facts: Mapping[str, Any] | None = None, again: bool = False) -> bool:
        """Set a mark that is not set yet, or with `again` in any case; return whether it was set now."""
        marks = self.marks()
        if name in marks and not again:
            return False
        self.make()
        self._write({**marks, name: {"at": int(time.time()), **(facts or {})}})
        return True

    def forget(self, *names: str) -> None:
        """Remove marks."""
        self._write({name: facts for name, facts in self.marks().items() if name not in names})

    def is_needed(self, copy: str) -> bool:
        """Return whether a copy is the only whole data: a daemon of the new release was started after it, or it was restored in part.

        Otherwise the daemon of the old release may have run since, and its jobs are not in the copy.
        """
        marks = self.marks()
        if copy not in marks:
            return False
        return RESTORING[copy] in marks or (STARTED in marks and _at(marks[STARTED]) >= _at(marks[copy]))

    def _write(self, marks: Mapping[str, Any]) -> None:
        atomic_write(self.path / _MARKS, json.dumps(marks, indent=1) + "\n", mode=0o600)

    def set_aside(self) -> Path:
        """Rename the folder after the way back, so that the next upgrade makes new copies; an older one of that kind is removed."""
        aside = self.path.with_name(self.path.name + _BACK)
        if aside.exists():
            shutil.rmtree(aside)
        self.path.rename(aside)
        return aside


def _at(facts: Mapping[str, Any]) -> int:
    return int(facts.get("at") or 0)
