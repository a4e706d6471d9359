# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded answers of nodes: which answer a module call gets, and the log of all calls.

A run has a folder with `answers.json`, a list of answers, and `calls.jsonl`, one line for each call. The first answer that matches a
call is its result. An answer has a `module` and a `result`, and may have `host`, `check`, `args` and `times`, how often it is given
to a host; after that the next answer that matches is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import unpack

ANSWERS, CALLS = "answers.json", "calls.jsonl"
_PREFIXES = ("bedplate.cluster.", "ansible.builtin.", "ansible.legacy.")
_REGEX = "re:"


class Recording:
    """The answers of one run, and its log."""

    def __init__(self, folder: Path) -> None:
        self._answers: list[dict[str, Any]] = json.loads((folder / ANSWERS).read_text())
        self._log = folder / CALLS

    def answer(self, host: str, module: str, arguments: Mapping[str, Any], check: bool) -> dict[str, Any]:
        """Log a call and return its recorded result; a call without one fails."""
        call = {"host": host, "module": short(module), "check": check, "args": readable(arguments)}
        taken = [line["answer"] for line in calls(self._log) if line["host"] == host]
        found = next(
            (
                number
                for number, answer in enumerate(self._answers)
                if _answers(answer, call) and taken.count(number) < answer.get("times", 1 << 30)
            ),
            None,
        )
        with self._log.open("a") as stream:
            stream.write(json.dumps({**call, "answer": found}) + "\n")
        if found is None:
            return {"failed": True, "msg": f"no recorded answer for {call['module']} on {host}: {call['args']}"}
        result: dict[str, Any] = self._answers[found]["result"]
        return result


def calls(log: Path) -> list[dict[str, Any]]:
    """Return the calls of a log."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def short(module: str) -> str:
    """Return the name of a module without its collection."""
    for prefix in _PREFIXES:
        module = module.removeprefix(prefix)
    return module


def readable(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without Ansible's own, and with the files of a payload by their path."""
    shown = {name: value for name, value in arguments.items() if not name.startswith("_ansible")}
    for name, into in (("payload", "files"), ("sources_payload", "sources")):
        if shown.get(name):
            shown[into] = {entry.path: _file(vars(entry)) for entry in unpack(shown.pop(name))}
    return shown


def _file(entry: Mapping[str, Any]) -> dict[str, Any]:
    content = bytes(entry["content"]).decode(errors="replace")
    return {name: value for name, value in {**entry, "path": "", "content": content}.items() if value}


def _answers(answer: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    wanted = {key: answer[key] for key in ("module", "host", "check", "args") if key in answer}
    return not any(differences(wanted, call))


def differences(wanted: Any, found: Any, place: str = "") -> Iterator[str]:
    """Return where a value is not as wanted.

    A mapping wants its own keys and no others, where null wants a key that is absent. A list wants as many entries. A text that begins
    with `re:` is a regular expression.
    """
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key, value in wanted.items():
            yield from differences(value, found.get(key), f"{place}.{key}" if place else str(key))
    elif isinstance(wanted, list) and isinstance(found, Sequence) and not isinstance(found, str):
        if len(wanted) != len(found):
            yield f"{place}: {len(found)} entries, wanted {len(wanted)}: {found}"
            return
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif isinstance(wanted, str) and wanted.startswith(_REGEX):
        if not re.search(wanted.removeprefix(_REGEX), str(found)):
            yield f"{place}: {found!r}, wanted {wanted!r}"
    elif wanted != found:
        yield f"{place}: {found!r}, wanted {wanted!r}"
