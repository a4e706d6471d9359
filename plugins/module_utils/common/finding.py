# SPDX-License-Identifier: GPL-3.0-or-later
"""Define a finding: a difference between the expected and the found state of a machine, its JSON and its text.

Every comparison returns findings. The caller that collects findings of several machines fills in `machine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

ERROR, WARNING, NOTICE = "error", "warning", "notice"
_ORDER = {ERROR: 0, WARNING: 1, NOTICE: 2}


@dataclass(frozen=True)
class Finding:
    """Hold one difference.

    `kind` is a stable short name such as `sysctl` or `unit-drop-in`; tests and programs compare it. `where` names the
    thing, such as `sysctl vm.swappiness` or the place `rack r1, leaf-03 port 17`. `expected` is empty if `found` is sufficient.
    `overridden_by` names what overrides bedplate's setting: a file and line, a drop-in or a program; empty if nothing does.
    `remedy` is the instruction to the operator. `reboot` is true if the remedy needs a reboot. `ports` are the planned ports of a
    fabric that the finding is about: each is the name of a switch or HCA and a port number; 0 is the whole switch or HCA.
    """

    kind: str
    where: str
    expected: str
    found: str
    remedy: str = ""
    severity: str = ERROR
    machine: str = ""
    overridden_by: str = ""
    reboot: bool = False
    ports: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        place = f"{self.machine}: {self.where}" if self.machine else self.where
        return f"{place}: {self.difference}" + (f"; {self.remedy}" if self.remedy else "")

    @property
    def difference(self) -> str:
        """Return the difference as text, without its place and remedy: `expected 10, found 60`."""
        override = f", overridden by {self.overridden_by}" if self.overridden_by else ""
        return (f"expected {self.expected}, found {self.found}" if self.expected else self.found) + override

    def on(self, machine: str) -> Finding:
        """Return a copy of the finding with the name of its machine."""
        return replace(self, machine=machine)


def to_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as plain data with all fields; a port is a list of name and number."""
    return [{**asdict(one), "ports": [list(port) for port in one.ports]} for one in findings]


def from_json(rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return findings from plain data. Unknown fields are of a newer bedplate and are ignored."""
    known = {field.name for field in fields(Finding)}
    found = []
    for row in rows:
        values = {key: value for key, value in row.items() if key in known}
        ports = tuple((str(name), int(number)) for name, number in values.pop("ports", ()))
        found.append(Finding(**values, ports=ports))
    return found


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings sorted by severity, then by machine; findings of one machine keep their order."""
    return sorted(findings, key=lambda one: (_ORDER[one.severity], one.machine))


def failed(findings: Iterable[Finding]) -> bool:
    """Return whether any finding is an error."""
    return any(one.severity == ERROR for one in findings)


def table(findings: Iterable[Finding]) -> str:
    """Return findings as text, one line each."""
    return "\n".join(map(str, findings))
