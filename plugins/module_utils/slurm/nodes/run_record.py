# SPDX-License-Identifier: GPL-3.0-or-later
"""Record, on a controller, which run works on the nodes now, so that a second one beside it is refused.

The run that holds the record renews it before each step, until the latest end of that step. A run that was killed leaves it: the next one
on the same control node takes it over at once, since it sees that the process is gone, and one on another control node when its time is
over. An unfinished run leaves its name, which the next call takes: nodes that it has drained are that call's own.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from ...common.files import atomic_write
from ...primitives.lock import one_at_a_time

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class RecordError(ValueError):
    """The record is held by another run, or is damaged."""


@dataclass(frozen=True)
class RunRecord:
    """The run, the holder that works on it ("" without one), since when, and until when at the latest, in UTC."""

    run: str
    holder: str = ""
    since: str = ""
    until: str = ""

    def is_held(self, now: datetime) -> bool:
        """Return whether a holder works on the run."""
        try:
            return bool(self.holder) and now < datetime.strptime(self.until, _TIME).replace(tzinfo=timezone.utc)
        except ValueError:
            return True  # an unreadable time must not let a second run in


class RunFile:
    """The record of one kind of run, in bedplate's state directory. In check mode nothing is written, not even the lock."""

    def __init__(self, directory: Path, kind: str, check: bool = False) -> None:
        """Use the file of a kind, such as roll.json."""
        self.path = directory / f"{kind}.json"
        self.check = check

    def read(self) -> RunRecord | None:
        """Return the record, None without one. Raises RecordError if it cannot be read: no run may work beside an unknown one."""
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            return RunRecord(**{name: str(data[name]) for name in ("run", "holder", "since", "until")})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordError(
                f"{self.path} is not the record of a run: {error}. If no other run works on the nodes, remove the file"
            ) from error

    def take(self, run: str, holder: str, seconds: int, now: datetime, dead: str = "") -> RunRecord:
        """Take or renew the record, and return it; the run of an unfinished record is kept, else it is `run`.

        `dead` is a holder that is known to be gone. Raises RecordError if another one holds it.
        """
        with self._lock():
            found = self.read()
            if found is not None and found.holder not in (holder, dead) and found.is_held(now):
                raise RecordError(
                    f"run {found.run} of {found.holder} works on the nodes since {found.since}, until {found.until} at the latest"
                )
            since = found.since if found is not None and found.holder == holder else now.strftime(_TIME)
            until = (now + timedelta(seconds=seconds)).strftime(_TIME)
            record = RunRecord(found.run if found is not None else run, holder, since, until)
            self._write(record)
            return record

    def release(self, holder: str, finished: bool) -> bool:
        """Release the record; return whether that changed anything. A finished run leaves no record."""
        with self._lock():
            found = self.read()
            if found is None or found.holder not in (holder, ""):
                return False
            if finished:
                if not self.check:
                    self.path.unlink()
                return True
            self._write(replace(found, holder="", until=""))
            return found.holder != ""

    def _lock(self) -> AbstractContextManager[None]:
        return nullcontext() if self.check else one_at_a_time(self.path.parent, self.path.stem)

    def _write(self, record: RunRecord) -> None:
        if self.check:
            return
        atomic_write(self.path, json.dumps(asdict(record)) + "\n", mode=0o644)
