# SPDX-License-Identifier: GPL-3.0-or-later
"""Change files and units as one: if a unit does not run on the new files, restore and prove the old files and units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from .files.file_plan import FilePlan
from .files.manifest import NodeFilesError
from .journal import Journal, UnitBefore, kept_of
from .units.systemd import Systemd, UnitsError
from .units.unit_plan import Unit

_ENABLED = ("enabled", "enabled-runtime", "linked", "linked-runtime")


def _as_before(unit: Unit) -> Unit:
    """Return a unit that ran before the change in its former state: the change may have stopped or masked it."""
    if unit.to_run:
        return replace(unit, masked=None, drop_ins=None)
    return Unit(unit.name, masked=False if unit.masked else None, state="started")


class Transaction:
    """Change of one manifest's files and of the units that run on them."""

    def __init__(self, directory: Path, manifest: str, units: Sequence[Unit], systemd: Callable[[], Systemd]) -> None:
        """Open the journal; `systemd` returns a fresh connection to systemd that applies changes and not only predicts them."""
        self.journal = Journal(directory, manifest)
        self.directory = directory
        self.units = units
        self.systemd = systemd
        self._before: dict[str, UnitBefore] = {}
        if self.journal.left_behind:
            # The units as killed runs left them, before this run changes them.
            self._units_before()

    def keep(self, plan: FilePlan) -> None:
        """Write to the journal the paths that a plan is about to change."""
        self.journal.keep(kept_of(plan), self._units_before())

    def commit(self, paths: Collection[str] | None = None) -> None:
        """Drop the old state: the new one is proved. `paths`: the only paths of a killed run that belong to the new state."""
        self.journal.settle(paths)

    @property
    def left_alone(self) -> dict[str, str]:
        """Return the paths that were changed after a run was killed, each with its expected and its found state."""
        return self.journal.left_alone

    def take_back(self, failure: str) -> str:
        """Restore files and units, and return the failure with the outcome of the restoration."""
        if self.journal.is_empty:
            return failure
        try:
            problems = self.journal.restore()
        except (NodeFilesError, OSError) as error:
            problems = [str(error)]
        running = [_as_before(unit) for unit in self.units if self._ran(unit.name)]
        started = [unit for unit in self.units if unit.to_run and not self._ran(unit.name)]
        for step, units in ((self._stop, started), (self._run, running)):
            try:
                step(units)
            except (NodeFilesError, UnitsError) as error:
                problems.append(str(error))
        if problems:
            listed = "\n".join(f"- {text}" for text in problems)
            return (
                f"{failure}\n\nThe previous state could NOT be restored in full:\n{listed}\n"
                f"The previous files are in {self.journal.path}. Correct the above and run again.{self._changed_since()}"
            )
        self.journal.clear()
        names = ", ".join(unit.name for unit in running)
        ran = f"{names} run on them again" if running else "units that did not run before are stopped"
        return (
            f"{failure}\n\nRestored: the previous files are on disk{', except those below' if self.left_alone else ''}, and {ran}. "
            "Correct the above and run again."
            f"{self._changed_since()}"
        )

    def _changed_since(self) -> str:
        """Return a paragraph about the paths that are left alone; may be empty."""
        if not self.left_alone:
            return ""
        listed = "\n".join(f"- {text}" for _path, text in sorted(self.left_alone.items()))
        return (
            "\n\nAn earlier run was killed, and a person or a program changed these paths after it. They are as this run found them; "
            f"their state from before the killed run is not restored:\n{listed}\n"
            "Read each of them, and correct its mistakes by hand. The next run that succeeds replaces them with the configured content."
        )

    def _units_before(self) -> dict[str, UnitBefore]:
        if not self._before and self.units:
            seen = self.systemd().read([unit.name for unit in self.units])
            self._before = {name: UnitBefore(now.running, now.file) for name, now in seen.items()}
        return self._before

    def _unit_before(self, name: str) -> UnitBefore | None:
        """Return the former state of a unit. If a killed run's files were changed since, units are not restored either."""
        units = {**self.journal.units, **self._before} if self.left_alone else self.journal.units
        return units.get(name)

    def _ran(self, name: str) -> bool:
        before = self._unit_before(name)
        return bool(before and before.running)

    def _stop(self, units: Sequence[Unit]) -> None:
        """Stop units that did not run before, and disable them: they must not start at the next boot either."""
        systemd = self.systemd()
        for unit in units:
            before = self._unit_before(unit.name)
            if before:
                systemd.put_down(unit.name, disable=bool(unit.enabled) and before.file not in _ENABLED)

    def _run(self, units: Sequence[Unit]) -> None:
        """Start, restart or reload units that ran before on the restored files, and prove them."""
        if not units:
            return
        systemd = self.systemd()
        try:
            systemd.apply(units, self.directory)
        except UnitsError:
            # A reload may fail because the daemon hangs on the files of the failed change.
            systemd = self.systemd()
            systemd.force_restart([unit.name for unit in units if unit.reload_command])
            systemd.apply(units, self.directory)
        systemd.prove([unit for unit in units if unit.to_run])
