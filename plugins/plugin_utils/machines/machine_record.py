# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of machines, `<name>.machines.json` beside the cluster file. One reader and one writer.

    {
     "format": 1,
     "about": "...",
     "machines": {
      "gpu001": {"serial": "S462117X3B01", "bmc_mac": "3c:ec:ef:12:34:56"},
      "gpu002": {"serial": "S462117X3B02"}
     }
    }

A machine has a line, in the order of the cluster file, so that git shows and merges changes by machine. A key without a value is absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ..common.beside import Stamp, path_beside, stamp_of
from .machine_values import ALLOWED, KEYS, UNIQUE, is_right

FORMAT = 1
SUFFIX = ".machines.json"
ABOUT = (
    "Written by playbooks/import_machines.yml and playbooks/bmc_discover.yml, which never change a value, and by "
    "playbooks/bmc_commission.yml, which records the certificates that it installs. To change a value, edit its line."
)
_TOP = ("format", "about", "machines")
_CONFLICT = re.compile(r"(<{7}|={7}|>{7}|\|{7})( |\Z)")
_RESTORE = "Correct it, or restore the file from git."


class RecordError(ValueError):
    """A record that cannot be used: all mistakes, each with the file, its line and the machine."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(mistakes))


@dataclass(frozen=True)
class Machine:
    """Hold the recorded values of a machine; "": not recorded.

    `serial`: of the system, as Redfish and DMI show it. `bmc_mac`: such as 3c:ec:ef:12:34:56. `boot_mac`: of the NIC that it boots from.
    `disk_serial`: of the system disk. `bmc_fingerprint`: SHA-256 of the BMC's certificate (DER), 64 hex digits.
    """

    serial: str = ""
    bmc_mac: str = ""
    boot_mac: str = ""
    disk_serial: str = ""
    bmc_fingerprint: str = ""

    @property
    def values(self) -> dict[str, str]:
        """Return key -> recorded value, in the order of the file."""
        found = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        return {key: value for key, value in found.items() if value}


NOTHING = Machine()
Record = Mapping[str, Machine]
"""Machine by name; a name without an entry has nothing on record."""


class _Object(dict[str, Any]):
    """A JSON object that keeps its duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _value in pairs]
        self.twice = (
            list(dict.fromkeys(name for name in names if names.count(name) > 1)) if len(self) < len(pairs) else []
        )


def path_of(cluster_file: str | Path) -> Path | None:
    """Return where the record of a cluster file is; None for an inventory without one.

    >>> str(path_of("/srv/west.bedplate.yml"))
    '/srv/west.machines.json'
    """
    return path_beside(cluster_file, SUFFIX)


def stamp(cluster_file: str | Path) -> Stamp:
    """Return what changes whenever the file does."""
    return stamp_of(path_of(cluster_file))


def read(cluster_file: str | Path, names: Iterable[str]) -> dict[str, Machine]:
    """Return the record in the order of `names`, the machines of the cluster file; {} if the file does not exist.

    RecordError: all mistakes.
    """
    path = path_of(cluster_file)
    return record_of(path, text, list(names)) if path and (text := read_text(path)) else {}


def read_text(path: Path) -> str:
    """Return the text of the file, "" if it does not exist. RecordError: it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError([f"{path}: cannot be read: {error}. {_RESTORE}"]) from None
    if not text.strip():
        # As no record, it would have every BMC trusted anew.
        raise RecordError([f"{path}: is empty. {_RESTORE}"])
    return text


def record_of(path: Path, text: str, names: Sequence[str]) -> dict[str, Machine]:
    """Return the record of a text. RecordError: all mistakes, with `path` and line."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _CONFLICT.match(line)]
    if lines:
        what = "is a marker of a merge conflict. Keep the right lines, and remove the markers."
        raise RecordError([f"{path}:{line}: {what}" for line in lines])
    try:
        data = json.loads(text, object_pairs_hook=_Object)
    except (json.JSONDecodeError, RecursionError) as error:
        what = getattr(error, "msg", str(error))
        raise RecordError([f"{path}:{getattr(error, 'lineno', 1)}: is not JSON: {what}. {_RESTORE}"]) from None
    found = [
        f"{path}:{line}: {mistake}" for line, mistake in sorted(_mistakes(data, text, names), key=lambda one: one[0])
    ]
    if found:
        raise RecordError(found)
    machines = data["machines"]
    return {name: Machine(**machines[name]) for name in names if name in machines}


def text_of(record: Record, names: Iterable[str]) -> str:
    """Return the text of the file: a line for each machine, in the order of `names`. Machines without values are left out."""
    rows = [(name, record[name].values) for name in names if name in record and record[name].values]
    lines = [f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in rows]
    head = f'{{\n "format": {FORMAT},\n "about": {json.dumps(ABOUT)},\n "machines": {{'
    return head + ("\n" + ",\n".join(lines) + "\n }\n}\n" if lines else "}\n}\n")


def _mistakes(data: Any, text: str, names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, mistake); only the first where the rest has no meaning."""
    if not isinstance(data, _Object):
        yield 1, f"is not an object. {_RESTORE}"
        return
    if data.get("format") != FORMAT:
        what = f"format: {data.get('format')!r}; allowed: {FORMAT}. Another release of bedplate wrote it."
        yield _line(text, "format"), f"{what} Use that release, or import the machines again."
        return
    for key in (*data.twice, *(key for key in data if key not in _TOP)):
        what = "is a duplicate" if key in _TOP else "is unknown"
        yield _line(text, key), f"{key}: {what}; allowed: {', '.join(_TOP)}, each once."
    machines = data.get("machines")
    if not isinstance(machines, _Object):
        yield _line(text, "machines"), "machines: not an object; allowed: an object, name -> keys."
        return
    yield from (
        (_line(text, name, 1), f"{name}: is a duplicate; allowed: each machine once.") for name in machines.twice
    )
    known, owner = set(names), dict[tuple[str, str], tuple[str, str]]()
    for name, values in machines.items():
        if name not in known:
            remedy = "Remove its line, or add the machine to the cluster file."
            yield _line(text, name), f"{name}: not in the cluster file.{did_you_mean(name, names)} {remedy}"
        if not isinstance(values, _Object):
            yield _line(text, name), f"{name}: not an object; allowed: {', '.join(KEYS)}."
            continue
        yield from ((_line(text, name), f"{name}: {key} is a duplicate; allowed: once.") for key in values.twice)
        for key, value in values.items():
            if key not in KEYS:
                hint = did_you_mean(key, KEYS)
                yield _line_in(text, name, key), f"{name}: key {key!r} is unknown.{hint} Allowed: {', '.join(KEYS)}."
            elif not is_right(key, value):
                yield _line_in(text, name, key), f"{name}: {key}: {json.dumps(value)}; allowed: {ALLOWED[key]}."
            elif key in UNIQUE:
                first = owner.setdefault(identity(key, value), (name, key))
                if first != (name, key):
                    what = f"{name}: {key}: {value} is {first[1]} of {first[0]} already"
                    yield _line_in(text, name, key), f"{what}; allowed: each {UNIQUE[key]} once."


def identity(key: str, value: str) -> tuple[str, str]:
    """Return what no two machines may share: the kind of the value, and the value without regard to case."""
    return UNIQUE[key], value.lower()


def _line(text: str, name: str, skip: int = 0) -> int:
    """Return the line of a key; `skip`: that of a later one of this name. JSON may write it with escapes: then 1."""
    places = [one.start() for one in re.finditer(re.escape(json.dumps(name)) + r"\s*:", text)]
    return text.count("\n", 0, places[min(skip, len(places) - 1)]) + 1 if places else 1


def _line_in(text: str, name: str, key: str) -> int:
    """Return the line of a key of a machine; a person may have written it over several lines."""
    start = re.search(re.escape(json.dumps(name)) + r"\s*:", text)
    found = re.compile(re.escape(json.dumps(key)) + r"\s*:").search(text, start.end()) if start else None
    return text.count("\n", 0, found.start()) + 1 if found else _line(text, name)
