# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what is pending on a node: parts of roles that a run in check mode would change, whether that needs a drain, and a reboot.

Sources: the results of the roles' tasks in check mode, and the notes of roles that wait for a reboot. part_needs.json has each part's name,
the variables that its tasks register, and when it needs the node without jobs: `always`, `never`, or with a `reboot` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

ALWAYS, NEVER, REBOOT = DRAINS = ("always", "never", "reboot")
NOTES = "__roll_reboot_notes"
"""The variable with the result of bedplate.cluster.reboot_wanted."""
PROBLEM = "__roll_problem"
"""The variable with why a role failed."""
UNIT = "unit or hold: "
"""How an item begins that is a change of a unit or of a held package."""
_NOTES_DIRECTORY = "/run/bedplate/reboot-wanted/"


@dataclass(frozen=True)
class PartNeeds:
    """A part: its name for operators, the variables that its tasks register, and when it needs a drain."""

    part: str
    registered: tuple[str, ...]
    drain: str


@dataclass(frozen=True)
class PendingNode:
    """Hold what is pending on a node: part -> what would change, in few words.

    `items` has the same in full, `reboot` why it must be rebooted, by part; `problem` why that is unknown.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    reboot: Mapping[str, str] = field(default_factory=dict)
    drain: bool = False
    problem: str = ""
    items: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_pending(self) -> bool:
        """Return whether a roll has work on the node."""
        return bool(self.parts or self.reboot)

    @property
    def text(self) -> str:
        """Return the parts for the reason of a drain.

        >>> PendingNode({"GPU driver": "x", "CUDA": "y"}, {"GPU driver": "z"}).text
        'GPU driver, CUDA, reboot'
        """
        return ", ".join([*dict.fromkeys([*self.parts, *self.reboot]), *["reboot"][: len(self.reboot)]])


@lru_cache(maxsize=1)
def needs() -> Mapping[str, PartNeeds]:
    """Return role or part -> its needs."""
    data = json.loads((Path(__file__).parent / "part_needs.json").read_text(encoding="utf-8"))
    return {name: PartNeeds(one["part"], tuple(one["registered"]), one["drain"]) for name, one in data.items()}


def pending(variables: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]) -> dict[str, PendingNode]:
    """Return host -> what is pending there; `variables` is host -> its variables after the roles ran in check mode."""
    return {host: _of_node(variables[host]) for host in hosts}


def _of_node(variables: Mapping[str, Any]) -> PendingNode:
    parts: dict[str, str] = {}
    items: dict[str, tuple[str, ...]] = {}
    reboot: dict[str, str] = {}
    problems: list[str] = []
    drain = False
    for need in needs().values():
        results = [variables[name] for name in need.registered if isinstance(variables.get(name), Mapping)]
        problems += [f"{need.part}: {why}" for one in results if (why := _problem(one))]
        changes = [text for one in results if one.get("changed") and (text := _changes(one))]
        why = "; ".join(dict.fromkeys(text for one in results for text in _reboot(one)))
        if changes:
            parts[need.part] = "; ".join(changes)
            items[need.part] = tuple(item for one in results if one.get("changed") for item in _items(one))
        if why:
            reboot[need.part] = why
        if waits := [text for one in results for text in _waiting(one)]:
            parts[need.part] = "; ".join([*changes, *waits])
            items[need.part] = (*items.get(need.part, ()), *waits)
        drain = drain or bool(why or waits) or (bool(changes) and need.drain == ALWAYS)
    problems += [str(variables[PROBLEM])] if variables.get(PROBLEM) else []
    notes = variables.get(NOTES)
    found = notes.get("reasons") if isinstance(notes, Mapping) else None
    for role, why in (found or {}).items():
        name = needs()[role].part if role in needs() else role
        reboot.setdefault(name, str(why))
        drain = True
    if not isinstance(notes, Mapping):
        problems.append("no answer by SSH")
    elif why := _problem(notes):
        problems.append(why)
    return PendingNode(parts, reboot, drain, "; ".join(problems), items)


def _problem(result: Mapping[str, Any]) -> str:
    if result.get("unreachable"):
        return "no answer by SSH"
    return str(result.get("msg") or "failed without a message") if result.get("failed") else ""


def _changes(result: Mapping[str, Any]) -> str:
    """Return what a task would change, in few words: packages and files by name, else the steps."""
    said = [f"{verb} {few(names, 3)}" for verb, names in _named(result).items() if names]
    if urgent := result.get("security"):
        said.append(f"security updates among them: {len(urgent)}")
    said += [step.replace("_", " ") for step, one in _steps(result) if one.get("changed")]
    return ", ".join(said) or "change"


def _items(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield each package, file, step, unit and hold that a task would change."""
    yield from (f"{verb} {name}" for verb, names in _named(result).items() for name in names)
    yield from (step.replace("_", " ") for step, one in _steps(result) if one.get("changed"))
    yield from (f"{UNIT}{one}" for one in result.get("changes") or ())


def _named(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return verb -> packages or files."""
    return {
        verb: [str(one) for one in result.get(key) or () if not str(one).startswith(_NOTES_DIRECTORY)]
        for key, verb in (("installed", "install"), ("removed", "remove"), ("changed_files", "write"))
    }


def _waiting(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield each step that waits for the node to be without jobs, such as settings of GPUs in use."""
    for step, one in _steps(result):
        # Findings of a step that did not fail are what it could not do now.
        if one.get("waiting") or one.get("findings"):
            yield f"{step.replace('_', ' ')} after the jobs"


def _reboot(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield why a node needs a reboot after this task."""
    if result.get("reboot_wanted") is True and result.get("changed"):
        yield str(result.get("reason") or "a new kernel")
    for path in result.get("changed_files") or ():
        if str(path).startswith(_NOTES_DIRECTORY):
            yield f"{str(path).removeprefix(_NOTES_DIRECTORY)} after the change"
    for step, one in _steps(result):
        if one.get("reboot_wanted"):
            yield str(one.get("reason") or step)


def _steps(result: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for step, one in (result.get("steps") or {}).items():
        if isinstance(one, Mapping):
            yield step, one
