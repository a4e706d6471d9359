# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do to the systemd units of this machine, without I/O; `systemd` reads and changes the units."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...common.text import did_you_mean

STATES = ("started", "stopped", "restarted", "reloaded")
_KEYS = (
    "name",
    "enabled",
    "state",
    "masked",
    "drop_ins",
    "condition",
    "restart_after",
    "reload_after",
    "reload_command",
    "proof",
    "state_where",
)
_CONDITIONS = ("required", "allowed")
_TYPES = "service|socket|timer|target|mount|automount|path|swap|slice|scope"
_NAME = re.compile(rf"[A-Za-z0-9:_.\\@-]+\.(?:{_TYPES})\Z")
_DROP_IN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\.conf\Z")

PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "NeedDaemonReload",
    "ConditionResult",
    "ConditionTimestampMonotonic",
    "Result",
    "Type",
    "InvocationID",
    "NRestarts",
    "CanReload",
    # Not the start of its main process: that moves when a daemon replaces itself, as slurmctld does to reconfigure.
    "ActiveEnterTimestampMonotonic",
)


@dataclass(frozen=True)
class Unit:
    """Desired state of one unit. None: not managed."""

    name: str
    enabled: bool | None = None
    state: str | None = None
    masked: bool | None = None
    drop_ins: Mapping[str, str] | None = None
    condition: str = "required"
    restart_after: Sequence[str] = ()
    reload_after: Sequence[str] = ()
    reload_command: Sequence[str] = ()
    # A command that succeeds only if the unit does its work.
    proof: Sequence[str] = ()
    state_where: Mapping[str, str] | None = None

    def where(self, text: str | None) -> Unit:
        """Return its desired state on a machine where the file of `state_where` has this text; None: no such file."""
        if self.state_where is None or (text or "").strip() == self.state_where["content"]:
            return self
        return replace(self, state=None, restart_after=(), reload_after=(), reload_command=())

    @property
    def to_run(self) -> bool:
        """Return whether the unit must run afterwards."""
        return self.state in ("started", "restarted", "reloaded")

    @property
    def may_be_absent(self) -> bool:
        """Return whether a machine without this unit is in the desired state: the unit must neither run nor start there."""
        unwanted = self.masked is not None or self.enabled is False or self.state == "stopped"
        return unwanted and not (self.enabled or self.to_run or self.drop_ins)


@dataclass(frozen=True)
class UnitState:
    """State of one unit in systemd."""

    id: str = ""
    load: str = "not-found"
    active: str = "inactive"
    sub: str = "dead"
    file: str = ""
    stale: bool = False
    unmet: bool = False
    result: str = ""
    type: str = ""
    invocation: str = ""
    restarts: str = "0"
    can_reload: bool = False
    # Seconds of the monotonic clock; 0 if it was not started since boot.
    started: float = 0.0

    @property
    def absent(self) -> bool:
        """Return whether this machine has no such unit."""
        return self.load == "not-found"

    @property
    def masked(self) -> bool:
        """Return whether the unit is masked."""
        return self.load == "masked" or self.file.startswith("masked")

    @property
    def running(self) -> bool:
        """Return whether the unit is running. A unit that waits for its next automatic restart is not."""
        return self.active in ("active", "reloading", "refreshing")

    @property
    def done(self) -> bool:
        """Return whether the unit has done its work and ended, as one of type oneshot does."""
        return self.type == "oneshot" and self.active == "inactive" and self.result == "success"

    @property
    def text(self) -> str:
        """Return the state in a few words."""
        return (
            "absent"
            if self.absent
            else f"{'masked' if self.masked else self.file or 'loaded'}, {self.active} ({self.sub})"
        )


@dataclass
class Decision:
    """Changes to make, each verb with the names of its units, and the problems that prevent them."""

    verbs: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, verb: str, name: str) -> None:
        """Add a verb for a unit."""
        self.verbs.setdefault(verb, []).append(name)

    def of(self, *verbs: str) -> list[str]:
        """Return the units that have one of these verbs."""
        return [name for verb in verbs for name in self.verbs.get(verb, [])]


def parse_show(text: str, names: Sequence[str]) -> dict[str, UnitState]:
    """Parse the output of `systemctl show` for these names, in their order."""
    blocks = [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for block in text.strip("\n").split("\n\n")
    ]
    if len(blocks) != len(names):
        raise ValueError(f"systemctl show returned {len(blocks)} units instead of {len(names)}: {' '.join(names)}")
    return {name: _seen(block) for name, block in zip(names, blocks)}


def _seen(block: Mapping[str, str]) -> UnitState:
    return UnitState(
        id=block.get("Id", ""),
        load=block.get("LoadState", ""),
        active=block.get("ActiveState", ""),
        sub=block.get("SubState", ""),
        file=block.get("UnitFileState", ""),
        stale=block.get("NeedDaemonReload") == "yes",
        # systemd unloads a unit that is inactive and not needed; it then answers ConditionResult=no without a check.
        unmet=block.get("ConditionResult") == "no" and block.get("ConditionTimestampMonotonic", "0") != "0",
        result=block.get("Result", ""),
        type=block.get("Type", ""),
        invocation=block.get("InvocationID", ""),
        restarts=block.get("NRestarts", "0"),
        can_reload=block.get("CanReload") == "yes",
        started=int(block.get("ActiveEnterTimestampMonotonic") or 0) / 1e6,
    )


def read_units(entries: Sequence[Mapping[str, Any]]) -> tuple[list[Unit], list[str]]:
    """Return the units of a task and every mistake in them."""
    found = []
    for number, entry in enumerate(entries):
        named = f"units[{number}] {entry.get('name') or ''}".rstrip()
        found += [f"{named}: {text}" for text in _mistakes(entry)]
    names = [entry.get("name") for entry in entries]
    found += [
        f"{name}: comes {names.count(name)} times"
        for name in sorted({str(n) for n in names if n})
        if names.count(name) > 1
    ]
    if found:
        return [], found
    return [Unit(**{key: value for key, value in entry.items() if value is not None}) for entry in entries], []


def _mistakes(entry: Mapping[str, Any]) -> Iterable[str]:
    for key in entry:
        if key not in _KEYS:
            yield f"unknown key {key!r}{did_you_mean(str(key), _KEYS, lead=', did')}. Allowed: {', '.join(_KEYS)}"
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.match(name):
        yield f"name {name!r}; allowed: the full name of a unit with its type, as munge.service"
    for key in ("enabled", "masked"):
        if not isinstance(entry.get(key), (bool, type(None))):
            yield f"{key} {entry[key]!r}; allowed: true, false"
    state = entry.get("state")
    if state is not None and state not in STATES:
        yield f"state {state!r}; allowed: {', '.join(STATES)}"
    if entry.get("condition") is not None and entry["condition"] not in _CONDITIONS:
        yield f"condition {entry['condition']!r}; allowed: {', '.join(_CONDITIONS)}"
    if entry.get("masked") is True and (entry.get("enabled") is True or state in ("started", "restarted", "reloaded")):
        yield "a masked unit can be neither enabled nor running. Set masked: false, or remove enabled and state"
    for key in ("restart_after", "reload_after"):
        yield from _after_mistakes(key, entry.get(key), state)
    command = entry.get("reload_command")
    if (command is None) != (entry.get("reload_after") is None):
        yield "reload_after and reload_command go together: the files, and the command that makes the unit read them again"
    elif command is not None and not _is_command(command):
        yield f"reload_command {command!r}; allowed: a list of words, as [scontrol, reconfigure]"
    if entry.get("proof") is not None and not _is_command(entry["proof"]):
        yield f"proof {entry['proof']!r}; allowed: a list of words, as [scontrol, ping]"
    where = entry.get("state_where")
    if where is not None and state is None:
        yield "state_where without a state. Allowed: together with state"
    if where is not None and not _is_where(where):
        yield f"state_where {where!r}; allowed: the path of a file and its content, as {{path: /sys/module/nvidia/version, content: ...}}"
    yield from drop_in_mistakes(entry.get("drop_ins"))


def _is_command(words: Any) -> bool:
    return isinstance(words, list) and bool(words) and all(isinstance(one, str) for one in words)


def _is_where(where: Any) -> bool:
    if not isinstance(where, Mapping) or set(where) != {"path", "content"}:
        return False
    return all(isinstance(one, str) and one == one.strip() for one in where.values()) and where["path"].startswith("/")


def _after_mistakes(key: str, paths: Any, state: Any) -> Iterable[str]:
    if paths is None:
        return
    if not isinstance(paths, list) or not all(isinstance(path, str) and path.startswith("/") for path in paths):
        yield f"{key} {paths!r}; allowed: a list of absolute paths"
    elif state != "started":
        yield f"{key} together with state {state!r}. Allowed: together with state: started"


def drop_in_mistakes(drop_ins: Any) -> Iterable[str]:
    """Yield the mistakes in the drop-ins of a unit."""
    if drop_ins is None:
        return
    if not isinstance(drop_ins, Mapping):
        yield f"drop_ins {drop_ins!r}; allowed: file names with their contents, as bedplate.conf: ..."
        return
    for name, content in drop_ins.items():
        if not isinstance(name, str) or not _DROP_IN.match(name):
            yield f"drop_ins {name!r}; allowed: a file name that ends in .conf, as bedplate.conf"
        if not isinstance(content, str):
            yield f"drop_ins {name}: the content is not text"


def decide_files(units: Sequence[Unit], seen: Mapping[str, UnitState], check: bool) -> Decision:
    """Decide what must happen first: masks, since they change which units exist."""
    decision = Decision()
    for unit in units:
        now = seen[unit.name]
        if unit.masked is not None and unit.masked != now.masked:
            decision.add("mask" if unit.masked else "unmask", unit.name)
        if now.absent and not unit.may_be_absent:
            _absent(unit, decision, check)
        elif now.masked and unit.masked is None and (unit.to_run or unit.enabled):
            decision.problems.append(
                f"{unit.name}: is masked, so it can be neither started nor enabled. Add masked: false"
            )
    return decision


def _absent(unit: Unit, decision: Decision, check: bool) -> None:
    if check:
        decision.notes.append(f"{unit.name}: does not exist yet; the prediction assumes that a package installs it")
    else:
        decision.problems.append(
            f"{unit.name}: unit not found on this machine. Install its package, or correct its name. "
            f"Units with similar names: systemctl list-unit-files '{unit.name.split('.')[0][:4]}*'"
        )


_NOTHING_TO_ENABLE = {
    "static": "it has no [Install] section, other units start it",
    "indirect": "it lacks an [Install] section but names units that have one",
    "generated": "systemd makes it at run time",
    "transient": "systemd makes it at run time",
    "alias": "it is another name of a unit",
}


def decide_enabled(units: Sequence[Unit], seen: Mapping[str, UnitState]) -> Decision:
    """Decide which units to enable and to disable."""
    decision = Decision()
    for unit in units:
        now = seen[unit.name]
        if unit.enabled is None or (unit.enabled and _is_enabled(unit, now, decision)):
            continue
        if unit.enabled:
            decision.add("enable", unit.name)
        elif now.file in ("enabled", "enabled-runtime", "linked", "linked-runtime"):
            decision.add("disable", unit.name)
    return decision


def _is_enabled(unit: Unit, now: UnitState, decision: Decision) -> bool:
    if now.file in _NOTHING_TO_ENABLE:
        decision.notes.append(
            f"{unit.name}: nothing to enable, its unit file is {now.file}: {_NOTHING_TO_ENABLE[now.file]}"
        )
        return True
    return now.file == "enabled"


def decide_running(units: Sequence[Unit], seen: Mapping[str, UnitState], outdated: Collection[str] = ()) -> Decision:
    """Decide which units to start, stop, restart and reload; `outdated` units run on files that changed after their start."""
    decision = Decision()
    for unit in units:
        now = seen[unit.name]
        if unit.state == "restarted" or (unit.name in outdated and now.running):
            decision.add("restart", unit.name)
        elif unit.state == "reloaded" and now.running:
            # A drop-in, or a file that systemd has not read yet, may add an ExecReload; then systemd itself reports a problem.
            if now.can_reload or unit.drop_ins or now.stale:
                decision.add("reload", unit.name)
            else:
                decision.problems.append(
                    f"{unit.name}: cannot be reloaded: its unit has no ExecReload. Use state: restarted"
                )
        elif unit.to_run and not now.running:
            decision.add("start", unit.name)
        elif unit.state == "stopped" and now.active not in ("inactive", "failed"):
            decision.add("stop", unit.name)
    return decision


def failing(unit: Unit, first: UnitState, last: UnitState, unmet: str) -> str:
    """Describe the failure of a unit from its state right after its start and after a pause; "" if it did not fail.

    `unmet` is the unmet condition of the unit, if any.
    """
    if last.running:
        if first.invocation != last.invocation or first.restarts != last.restarts:
            return "starts and fails repeatedly"
        return ""
    if unmet:
        text = f"was not started, since {unmet} is not met. Meet the condition, or set condition: allowed if that is intended"
        return "" if unit.condition == "allowed" else text
    if last.done:
        return ""
    return f"is {last.active} ({last.sub}; result {last.result or 'unknown'})"


_DONE = {
    "mask": "masked",
    "unmask": "unmasked",
    "enable": "enabled",
    "disable": "disabled",
    "stop": "stopped",
    "restart": "restarted",
    "reload": "reloaded",
    "start": "started",
}


def changes(units: Sequence[Unit], verbs: Mapping[str, Sequence[str]], files: Sequence[str]) -> list[str]:
    """Return the changes, done or predicted, one line per unit: `munge.service: enabled, started`."""
    lines = []
    for unit in units:
        done = [word for verb, word in _DONE.items() if unit.name in verbs.get(verb, ())]
        if any(f"/{unit.name}.d/" in path for path in files):
            done.insert(0, "drop-ins changed")
        if done:
            lines.append(f"{unit.name}: {', '.join(done)}")
    return [*lines, "systemd: configuration reloaded"] if "daemon-reload" in verbs else lines


def predicted(unit: Unit, now: UnitState, verbs: Mapping[str, Sequence[str]]) -> str:
    """Return the predicted state of a unit in a few words."""
    done = {verb for verb, names in verbs.items() if unit.name in names}
    if not done:
        return now.text
    file = now.file or "loaded"
    for verb in ("unmask", "enable", "disable", "mask"):
        file = _DONE[verb] if verb in done else file
    active = "inactive" if "stop" in done else "active" if unit.to_run else now.active
    how = [f" ({word})" for verb, word in (("restart", "restarted"), ("reload", "reloaded")) if verb in done]
    return f"{file}, {active}{''.join(how)}"
