# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the mutants of a file of tasks or plays: one small change each, such as a condition that always holds or a removed task."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[Any, ...]
SWAPPED = "swapped with the next"
_LISTS = ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always")
# What keeps a mistake of one host from the others, or says how many hosts run it.
_KEYWORDS = ("run_once", "any_errors_fatal", "serial", "max_fail_percentage")
_ASSERT = "ansible.builtin.assert"
# What has no result of its own, or none where it does something: plays, blocks, imports and meta.
_SILENT = (
    "ansible.builtin.meta",
    "ansible.builtin.import_playbook",
    "ansible.builtin.import_role",
    "ansible.builtin.import_tasks",
)
_HOLDERS = ("hosts", "block")


@dataclass(frozen=True)
class Mutant:
    """A changed file; `task` and `change` name it, `line` is where the original has the task.

    `spans` are the first and the last line of the task, and of the next one where they are swapped, in the original as `dumped` writes it.
    `silent`: one of them can run without a result of its own.
    """

    file: str
    line: int
    task: str
    change: str
    text: str
    spans: tuple[tuple[int, int], ...] = ()
    silent: bool = True

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.task!r}: {self.change}"


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """Return all mutants of a file of tasks or plays. An entry with an anchor is in several places, and changes in all at once."""
    document = yaml.safe_load(text)
    lines, dumped_lines = _Lines(text), _Lines(dumped(document))
    made: set[str] = set()
    for path, change, value in _changes(document, ()):
        task = _at(document, path)
        touched = [path, (*path[:-1], path[-1] + 1)] if change == SWAPPED else [path]
        changed = dumped(value(copy.deepcopy(document)))
        if changed in made:
            continue
        made.add(changed)
        yield Mutant(
            file=file,
            line=lines.of(path)[0],
            task=str(task.get("name", next(iter(task)))),
            change=change,
            text=changed,
            spans=tuple(dumped_lines.of(one) for one in touched),
            silent=any(key in _at(document, one) for one in touched for key in (*_SILENT, *_HOLDERS)),
        )


def dumped(document: Any) -> str:
    """Return a document as YAML."""
    return yaml.safe_dump(document, sort_keys=False, width=1 << 20, allow_unicode=True)


class _Lines:
    """The lines of each task."""

    def __init__(self, text: str) -> None:
        self._root: Any = yaml.compose(text, Loader=yaml.SafeLoader)

    def of(self, path: Path) -> tuple[int, int]:
        """Return the first and the last line of a task."""
        node = self._root
        for key in path:
            if isinstance(node, yaml.SequenceNode):
                node = node.value[key]
            else:
                node = next(value for name, value in node.value if name.value == key)
        return node.start_mark.line + 1, node.end_mark.line


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _changes(document: Any, base: Path) -> Iterator[tuple[Path, str, Any]]:
    """Return the place, the name and the function of each change of a list of tasks or plays, and of the lists in it."""
    entries = _at(document, base) or []
    for number, entry in enumerate(entries):
        path = (*base, number)
        yield path, "dropped", _dropped(base, number)
        if number + 1 < len(entries):
            yield path, SWAPPED, _swapped(base, number)
        yield from _of_entry(entry, path)
        for key in _LISTS:
            if isinstance(entry.get(key), list):
                yield from _changes(document, (*path, key))


def _of_entry(entry: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str, Any]]:
    """Return the changes of one task or play itself."""
    yield from _of_conditions(entry, path, "when", always=True)
    for key in _KEYWORDS:
        if key in entry:
            yield path, f"{key} dropped", _without(path, key)
    if isinstance(entry.get(_ASSERT), Mapping):
        asserted = ((*path, _ASSERT), "that")
        yield from ((path, *rest) for _, *rest in _of_conditions(entry[_ASSERT], *asserted, always=False))


def _of_conditions(holder: Mapping[str, Any], path: Path, key: str, always: bool) -> Iterator[tuple[Path, str, Any]]:
    """Return each condition as true, and with `always` all of them as false."""
    if key not in holder:
        return
    value = holder[key]
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield path, f"{key} true: {one}", _set((*path, key, number), True)
    elif value is not True:
        yield path, f"{key} true", _set((*path, key), True)
    if always and value is not False:
        yield path, f"{key} false", _set((*path, key), False)


def _dropped(base: Path, number: int) -> Any:
    def change(document: Any) -> Any:
        del _at(document, base)[number]
        return document

    return change


def _swapped(base: Path, number: int) -> Any:
    def change(document: Any) -> Any:
        entries = _at(document, base)
        entries[number : number + 2] = reversed(entries[number : number + 2])
        return document

    return change


def _without(path: Path, key: str) -> Any:
    def change(document: Any) -> Any:
        del _at(document, path)[key]
        return document

    return change


def _set(path: Path, value: Any) -> Any:
    def change(document: Any) -> Any:
        _at(document, path[:-1])[path[-1]] = value
        return document

    return change
