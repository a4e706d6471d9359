# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the systemd units of this machine to the desired state: one read for all, one call for each kind of change."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...common import command
from ...common.command import Outcome
from ..files.file_plan import DesiredFile
from ..files.file_writer import Keep, apply
from . import unit_log
from .applied_files import Applied, stamps_of
from .unit_plan import (
    PROPERTIES,
    Decision,
    Unit,
    UnitState,
    changes,
    decide_enabled,
    decide_files,
    decide_running,
    failing,
    parse_show,
    predicted,
)

UNIT_DIRECTORY = "/etc/systemd/system"
_UNMET = re.compile(r"(?:Condition|Assert)[A-Za-z]+=[^\n]*?(?= was not met| failed\b|\)|$)", re.MULTILINE)

Run = Callable[[list[str], float], Outcome]


class UnitsError(Exception):
    """Units that are not in the desired state; the text is complete."""


class Systemd:
    """The systemd of this machine, for one call of the module."""

    def __init__(
        self,
        check: bool,
        diff: bool,
        settle: float = 1.0,
        timeout: float = 120.0,
        run: Run = command.run,
        touched: Collection[str] = (),
        keep: Keep | None = None,
        predicted: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.check = check
        self.diff = diff
        self.settle = settle
        self.timeout = timeout
        self.run = run
        # Files that this run changes; in check mode they still have their old times.
        self.touched = touched
        # Drop-ins that this call writes or removes: the running units have not read them.
        self.drop_in_changes: dict[str, list[str]] = {}
        # In check mode: `files` and `units` that earlier tasks of the same run will have changed.
        self.predicted = (predicted or {}) if check else {}
        # Called with the plan of drop-ins before they are written.
        self.keep = keep
        self.proof_timeout = 30.0
        self.unit_directory = UNIT_DIRECTORY
        self.began = time.time()
        self.verbs: dict[str, list[str]] = {}
        self.outdated: dict[str, list[str]] = {}

    def apply(
        self, units: Sequence[Unit], state_directory: Path, unit_directory: str = UNIT_DIRECTORY
    ) -> dict[str, Any]:
        """Change the units to the desired state, and return the result of an Ansible module."""
        self.unit_directory = unit_directory
        units = [unit.where(_text_of(unit)) for unit in units if not self._is_done(unit)]
        self.touched = [*self.touched, *self.predicted.get("files", ())]
        names = [unit.name for unit in units]
        before = seen = self._show(names)
        first = decide_files(units, seen, self.check)
        if first.problems and not self.check:
            # A unit file may be newer than systemd's last read of its directories.
            self._systemctl("daemon-reload", [])
            before = seen = self._show(names)
            first = decide_files(units, seen, self.check)
        _refuse([*first.problems, *decide_enabled(units, seen).problems, *decide_running(units, seen).problems])
        files = self._drop_ins(units, state_directory, unit_directory)
        self._do(first, "mask", "unmask")
        if files["changed_files"] or files["removed"] or any(now.stale for now in seen.values()):
            self._change("daemon-reload", [])
        if self.verbs and not self.check:
            seen = self._show(names)
        enabled = decide_enabled(units, seen)
        _refuse(enabled.problems)
        self._do(enabled, "enable", "disable")
        applied = Applied(state_directory)
        self._apply_running(units, seen, applied)
        self._reload(units, seen, applied)
        self._prove_work(units)
        return self._result(units, before, files, [*first.notes, *enabled.notes])

    def _is_done(self, unit: Unit) -> bool:
        """Return whether an earlier task will have done all of this, and no file of this task needs more."""
        return unit.name in self.predicted.get("units", ()) and not {*unit.restart_after, *unit.reload_after} & set(
            self.touched
        )

    def _apply_running(self, units: Sequence[Unit], seen: dict[str, UnitState], applied: Applied) -> None:
        decision = decide_running(units, seen, self._outdated(units, seen, applied))
        _refuse(decision.problems)
        by_name = {unit.name: unit for unit in units}
        for name in decision.verbs.get("start", [])[:]:
            if by_name[name].condition == "allowed" and not seen[name].absent and self._unmet(name, seen[name]):
                decision.verbs["start"].remove(name)
        if not self.check:
            failed = [name for name in decision.of("start", "restart") if seen[name].active == "failed"]
            if failed:  # otherwise systemd may refuse: started too often
                self._systemctl("reset-failed", failed)
        said = self._do(decision, "stop", "restart", "reload", "start")
        if not self.check:
            self._prove(by_name, decision, said)
            for name in decision.of("start", "restart"):
                unit = by_name[name]
                applied.remember_start(name, [*unit.restart_after, *self._restarting_drop_ins(unit)])

    def _reload(self, units: Sequence[Unit], seen: dict[str, UnitState], applied: Applied) -> None:
        """Reload running units whose files changed since their last reload."""
        started = {name for verb in ("start", "restart") for name in self.verbs.get(verb, ())}
        for unit in units:
            if not (seen[unit.name].running or unit.name in started):
                continue
            changed = applied.unread(unit.name, unit.reload_after)
            if self.check:
                changed += [path for path in unit.reload_after if path in self.touched and path not in changed]
            if not changed:
                continue
            self.outdated[unit.name] = [*self.outdated.get(unit.name, []), *changed]
            self.verbs.setdefault("reload", []).append(unit.name)
            if not self.check:
                stamps = stamps_of(unit.reload_after)
                self._run_reload(unit)
                applied.remember(unit.name, stamps)

    def _run_reload(self, unit: Unit) -> None:
        words = list(unit.reload_command)
        outcome = self.run(words, self.timeout)
        if outcome.code != 0:
            said = outcome.text or f"ended with {outcome.code}"
            raise UnitsError(f"{unit.name}: {' '.join(words)}: {said}{self._evidence(unit.name)}")

    def _prove_work(self, units: Sequence[Unit]) -> None:
        """Prove units that were started or reloaded."""
        if self.check:
            return
        done = {name for verb in ("start", "restart", "reload") for name in self.verbs.get(verb, ())}
        if "reload" in self.verbs and self.settle > 0:
            time.sleep(self.settle)
        self.prove([unit for unit in units if unit.name in done and unit.proof])

    def prove(self, units: Sequence[Unit]) -> None:
        """Raise UnitsError unless all units run and their proofs succeed."""
        seen = self._show([unit.name for unit in units])
        for unit in units:
            if not seen[unit.name].running:
                raise UnitsError(f"{unit.name}: must run, but is {seen[unit.name].text}{self._evidence(unit.name)}")
            if unit.proof:
                self._prove_one(unit)

    def _prove_one(self, unit: Unit) -> None:
        until = time.monotonic() + self.proof_timeout
        while True:
            outcome = self.run(list(unit.proof), max(1.0, until - time.monotonic()))
            if outcome.code == 0:
                return
            if time.monotonic() >= until:
                said = outcome.text or f"ended with {outcome.code}"
                raise UnitsError(f"{unit.name}: runs, but {' '.join(unit.proof)}: {said}{self._evidence(unit.name)}")
            time.sleep(min(1.0, self.settle))

    def read(self, names: Sequence[str]) -> dict[str, UnitState]:
        """Return the state of units from systemd."""
        return self._show(names)

    def put_down(self, name: str, disable: bool) -> None:
        """Stop a unit, and disable it if requested; a unit that does not exist counts as stopped."""
        if self._show([name])[name].absent:
            return
        outcomes = [self._systemctl("stop", [name]), self._systemctl("reset-failed", [name])]
        if disable:
            outcomes.append(self._systemctl("disable", [name]))
        # A unit that never failed cannot be reset; that is no error.
        wrong = [outcome.text for index, outcome in enumerate(outcomes) if outcome.code != 0 and index != 1]
        _refuse([f"{name}: cannot be stopped or disabled: {text}" for text in wrong])

    def force_restart(self, names: Sequence[str]) -> None:
        """Restart units that run but do not answer, even if their files have not changed."""
        if names:
            for verb in ("reset-failed", "restart"):
                self._systemctl(verb, names)

    def _outdated(self, units: Sequence[Unit], seen: dict[str, UnitState], applied: Applied) -> dict[str, list[str]]:
        """Return the running units with files that changed after the unit was started, and these files."""
        found = {}
        for unit in units:
            paths = [*unit.restart_after, *self._restarting_drop_ins(unit)]
            changed = applied.changed(unit.name, seen[unit.name].started, paths)
            changed += [path for path in self.drop_in_changes.get(unit.name, ()) if path not in changed]
            if self.check:
                changed += [path for path in unit.restart_after if path in self.touched and path not in changed]
            if changed and seen[unit.name].running:
                found[unit.name] = changed
        self.outdated = found
        return found

    def _restarting_drop_ins(self, unit: Unit) -> list[str]:
        """Return the paths of a unit's drop-ins, where a change restarts it: a run may have ended between file and restart."""
        return [f"{self.unit_directory}/{unit.name}.d/{name}" for name in unit.drop_ins or ()] if unit.to_run else []

    def _do(self, decision: Decision, *verbs: str) -> list[str]:
        said = [self._change(verb, decision.verbs[verb]) for verb in verbs if decision.verbs.get(verb)]
        return [text for text in said if text]

    def _change(self, verb: str, names: list[str]) -> str:
        """Run one systemctl call for all units, and return its error text if it failed."""
        self.verbs[verb] = names
        if self.check:
            return ""
        outcome = self._systemctl(verb, names)
        if outcome.code == 0:
            return ""
        text = f"systemctl {verb} {' '.join(names)}: {outcome.text or f'ended with {outcome.code}'}"
        if verb in ("stop", "start", "restart", "reload"):
            return text  # the state of the units is reported in more detail
        raise UnitsError(text)

    def _systemctl(self, verb: str, names: Sequence[str]) -> Outcome:
        return self.run(["systemctl", "--no-ask-password", verb, *(["--", *names] if names else [])], self.timeout)

    def _show(self, names: Sequence[str]) -> dict[str, UnitState]:
        if not names:
            return {}
        outcome = self.run(["systemctl", "show", f"--property={','.join(PROPERTIES)}", "--", *names], 60.0)
        try:
            if outcome.code == 0:
                return parse_show(outcome.stdout, names)
            raise ValueError(outcome.text)
        except ValueError as error:
            raise UnitsError(
                f"systemd on this machine does not answer: {error}. Check: systemctl is-system-running"
            ) from error

    def _drop_ins(self, units: Sequence[Unit], state_directory: Path, unit_directory: str) -> dict[str, Any]:
        total: dict[str, Any] = {"changed": False, "changed_files": [], "removed": [], "problems": [], "diff": []}
        for unit in units:
            if unit.drop_ins is None:
                continue
            base = f"{unit_directory}/{unit.name}.d"
            wanted = [DesiredFile(f"{base}/{name}", content=text.encode()) for name, text in unit.drop_ins.items()]
            done = apply(
                f"drop_ins:{unit.name}", wanted, state_directory, self.check, self.diff, "",
                keep=self.keep, predicted=self.predicted.get("files", ()),
            )  # fmt: skip
            if unit.to_run:
                paths = [*done["changed_files"], *done["removed"]]
                self.drop_in_changes[unit.name] = [path for path in paths if path != base]
            total["changed"] |= done["changed"]
            for key in ("changed_files", "removed", "problems", "diff"):
                total[key] += done.get(key, [])
        return total

    def _unmet(self, name: str, now: UnitState) -> str:
        """Return the condition of a unit that is not met now; systemd can evaluate it without a start."""
        outcome = self.run(["systemd-analyze", "condition", f"--unit={name}"], 30.0)
        found = _UNMET.findall(outcome.text) if outcome.code == 1 else []
        return ", ".join(found) or ("a condition of its unit" if now.unmet else "")

    def _prove(self, units: dict[str, Unit], decision: Decision, said: list[str]) -> None:
        touched = decision.of("start", "restart", "reload", "stop")
        if not touched:
            return
        first = last = self._show(touched)
        if decision.of("start", "restart") and self.settle > 0:
            time.sleep(self.settle)
            last = self._show(touched)
        wrong = []
        for name in touched:
            unit, now = units[name], last[name]
            if unit.state == "stopped":
                text = f"is still {now.active} ({now.sub})" if now.active not in ("inactive", "failed") else ""
            else:
                text = failing(unit, first[name], now, "" if now.running else self._unmet(name, now))
            if text:
                wrong.append(f"{name}: must be {unit.state}, but {text}{self._evidence(name)}")
        if wrong or said:
            raise UnitsError("\n\n".join([*wrong, *said]))

    def _evidence(self, name: str) -> str:
        status = self.run(["systemctl", "status", "--no-pager", "--full", "--lines=0", "--", name], 30.0).text
        journal = unit_log.last_lines(self.run, name, self.began)
        return f"\n--- systemctl status {name}\n{status}\n--- journalctl --unit={name}\n{journal}"

    def _result(
        self, units: Sequence[Unit], before: dict[str, UnitState], files: dict[str, Any], notes: list[str]
    ) -> dict[str, Any]:
        result: dict[str, Any] = {
            "changed": bool(self.verbs) or files["changed"],
            "changes": changes(units, self.verbs, [*files["changed_files"], *files["removed"]]),
            "actions": [" ".join([verb, *names]) for verb, names in self.verbs.items()],
            "changed_files": files["changed_files"],
            "removed": files["removed"],
            "notes": notes
            + [
                f"{name}: has not read the present content of: {', '.join(paths)}"
                for name, paths in self.outdated.items()
            ],
            "problems": files["problems"],
        }
        if self.diff:
            result["diff"] = files["diff"] + self._diff(units, before)
        return result

    def _diff(self, units: Sequence[Unit], before: dict[str, UnitState]) -> list[dict[str, str]]:
        rows = [(unit.name, before[unit.name].text, predicted(unit, before[unit.name], self.verbs)) for unit in units]
        changed = [row for row in rows if row[1] != row[2]]
        if not changed:
            return []
        texts = ["".join(f"{row[0]}: {row[side]}\n" for row in changed) for side in (1, 2)]
        return [{"before_header": "units", "after_header": "units", "before": texts[0], "after": texts[1]}]


def _text_of(unit: Unit) -> str | None:
    """Return the text of the file that decides whether a unit's desired state applies here."""
    try:
        return Path(unit.state_where["path"]).read_text(errors="replace") if unit.state_where else None
    except OSError:
        return None


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise UnitsError("\n".join(dict.fromkeys(problems)))
