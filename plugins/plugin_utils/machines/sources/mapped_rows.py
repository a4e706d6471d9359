# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the machine of the cluster file for each row of a source: by name, else by a serial number on record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..machine_record import Record
from ..machine_values import ALLOWED, SERIAL, is_right, normal
from ..record_changes import FoundValue
from .machine_row import MachineRow


@dataclass(frozen=True)
class Names:
    """The machines of a cluster, their domain, and the serial numbers on record, in small letters."""

    names: Mapping[str, str]
    domain: str
    serials: Mapping[str, str]

    def machine(self, name: str, serial: str) -> str:
        """Return the machine of a name, else of a serial number; "": none."""
        return self._named(name.strip().lower()) or self.serials.get(serial.strip().lower(), "")

    def is_ours(self, name: str, serial: str) -> bool:
        """Return whether a machine is of the cluster."""
        return bool(self.machine(name, serial))

    def _named(self, name: str) -> str:
        if name in self.names:
            return self.names[name]
        short, _dot, domain = name.partition(".")
        # With a domain in the cluster file, gpu001 of another domain is another machine.
        return self.names.get(short, "") if domain and domain == (self.domain or domain) else ""


def names_of(names: Iterable[str], domain: str | None, record: Record) -> Names:
    """Return how rows are found: machines of the cluster file, its domain, and recorded serials."""
    serials = {machine.serial.lower(): name for name, machine in record.items() if machine.serial}
    return Names({name.lower(): name for name in names}, (domain or "").lower(), serials)


@dataclass
class MappedRows:
    """The values of all rows by machine; rows without one; keys that the source lacks; mistakes, with which nothing is written."""

    found: list[FoundValue] = field(default_factory=list)
    unmapped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    machines: dict[str, str] = field(default_factory=dict)
    """Machine -> where its first row is."""


def mapped(rows: Iterable[MachineRow], names: Names) -> MappedRows:
    """Return the values of rows in the form of the record; a wrong value, and two values for one key, are mistakes."""
    result = MappedRows()
    seen: dict[tuple[str, str], FoundValue] = {}
    for row in rows:
        machine = names.machine(row.name, row.values.get(SERIAL, ""))
        if not machine:
            result.unmapped.append(_unmapped(row))
            continue
        result.machines.setdefault(machine, row.where)
        result.notes += [f"{row.where}: {machine}: no {key}: {why}" for key, why in row.notes.items()]
        for value in _values(row, machine, result.mistakes):
            first = seen.setdefault((machine, value.key), value)
            if first is value:
                result.found.append(value)
            elif first.value != value.value:
                text = f"{row.where}: {machine}: {value.key} is {value.value}, and {first.value} in {first.source}. Keep one."
                result.mistakes.append(text)
    return result


def _values(row: MachineRow, machine: str, mistakes: list[str]) -> Iterator[FoundValue]:
    for key, written in row.values.items():
        value = normal(key, written)
        if not value:
            continue
        if is_right(key, value):
            yield FoundValue(machine, key, value, row.where)
        else:
            mistakes.append(f"{row.where}: {machine}: {key}: {json.dumps(written)}; allowed: {ALLOWED[key]}.")


def _unmapped(row: MachineRow) -> str:
    serial = row.values.get(SERIAL, "")
    what = (
        " ".join(filter(None, [row.name, f"(serial {serial})" if serial else ""]))
        or "a machine without name and serial"
    )
    return f"{row.where}: {what}: neither the name of a machine of the cluster file nor a serial on record"
