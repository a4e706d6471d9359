# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded answers of nodes: which answer a module call gets, and the log of all calls.

A run has a folder with `answers.json`, a list of answers, and `calls.jsonl`, one line for each call. The first answer that matches a
call is its result. An answer has a `module` and a `result`, and may have `host`, `check`, `args` and `times`, how often it is given
to a host; after that the next answer that matches is taken.

Where the folder has `wanted.json`, the first call that is not as wanted there ends the run: what comes after it decides nothing.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import unpack

ANSWERS, CALLS, WANTED = "answers.json", "calls.jsonl", "wanted.json"
_TAKEN = "taken"
MAIN = "BEDPLATE_RECORDING_PID"  # of the process of ansible-playbook: its workers have sessions of their own
_PREFIXES = ("bedplate.cluster.", "ansible.builtin.", "ansible.legacy.")
_REGEX = "re:"


class Recording:
    """The answers of one run, and its log."""

    def __init__(self, folder: Path) -> None:
        self._answers: list[dict[str, Any]] = json.loads((folder / ANSWERS).read_text())
        self._log, self._taken, self._wanted = folder / CALLS, folder / _TAKEN, folder / WANTED

    def answer(self, host: str, module: str, arguments: Mapping[str, Any], check: bool) -> dict[str, Any]:
        """Log a call and return its recorded result; a call without one fails."""
        call = {"host": host, "module": short(module), "check": check, "args": readable(arguments)}
        # A log of its own: that of the calls has whole files, and each call is made in another process.
        lines = self._taken.read_text().splitlines() if self._taken.exists() else []
        taken = [int(number) for name, _, number in (line.rpartition(" ") for line in lines) if name == host]
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
        with self._taken.open("a") as stream:
            stream.write(f"{host} {-1 if found is None else found}\n")
        if self._wanted.exists() and any(unlike(json.loads(self._wanted.read_text()), len(lines), call)):
            os.kill(int(os.environ[MAIN]), signal.SIGKILL)
            os._exit(0)
        if found is None:
            return {"failed": True, "msg": f"no recorded answer for {call['module']} on {host}: {call['args']}"}
        result: dict[str, Any] = self._answers[found]["result"]
        return result


def unlike(
    wanted: Sequence[tuple[str, Mapping[str, Any], bool]], number: int, call: Mapping[str, Any]
) -> Iterator[str]:
    """Return what is not as wanted of a call, from 0; what is wanted is `host module`, arguments, and whether it is in check mode."""
    made = f"{call['host']} {call['module']}"
    if number >= len(wanted):
        yield f"call that is not wanted: {made} {call['args']}"
        return
    name, arguments, check = wanted[number]
    if name != made:
        yield f"call {number + 1} is {made}, wanted {name}"
        return
    for text in differences(arguments, call["args"]):
        yield f"call {number + 1}, {name}: {text}"
    if call["check"] != check and call["module"] != "shell":
        yield f"call {number + 1}, {name}: check mode is {call['check']}"


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
