# SPDX-License-Identifier: GPL-3.0-or-later
"""A difference between what is expected of a machine and what was found there: one type, its JSON and its text.

Everything that compares returns findings. Who collects those of several machines fills in `machine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

ERROR, WARNING, NOTICE = "error", "warning", "notice"
_ORDER = {ERROR: 0, WARNING: 1, NOTICE: 2}


@dataclass(frozen=True)
class Finding:
    """One difference.

    `kind` is a stable short name of its class, such as `sysctl` or `unit-drop-in`; tests and programs compare it. `where` names the
    thing, such as `sysctl vm.swappiness` or the place `rack r1, leaf-03 port 17`. `expected` is empty where `found` says it all.
    `overridden_by` names the file and line, the drop-in or the program that wins over what bedplate wrote; empty when nothing does.
    `remedy` says what to do. `reboot` says whether the remedy needs a reboot. `ports` are the planned ports of a fabric in question,
    each a switch or an HCA and the number of its port; 0 is the switch or HCA as a whole.
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
        """Return the difference in words, without its place and remedy: `expected 10, found 60`."""
        override = f", overridden by {self.overridden_by}" if self.overridden_by else ""
        return (f"expected {self.expected}, found {self.found}" if self.expected else self.found) + override

    def on(self, machine: str) -> Finding:
        """Return the finding with the name of its machine."""
        return replace(self, machine=machine)


def to_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as plain data, with all their fields; a port is a list of name and number."""
    return [{**asdict(one), "ports": [list(port) for port in one.ports]} for one in findings]


def from_json(rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return the findings of plain data; unknown fields are those of a newer bedplate and are left out."""
    known = {field.name for field in fields(Finding)}
    found = []
    for row in rows:
        values = {key: value for key, value in row.items() if key in known}
        ports = tuple((str(name), int(number)) for name, number in values.pop("ports", ()))
        found.append(Finding(**values, ports=ports))
    return found


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by severity, then by machine; findings of one machine keep their order."""
    return sorted(findings, key=lambda one: (_ORDER[one.severity], one.machine))


def failed(findings: Iterable[Finding]) -> bool:
    """Return whether one of the findings is an error."""
    return any(one.severity == ERROR for one in findings)


def table(findings: Iterable[Finding]) -> str:
    """Return findings as text, a line each."""
    return "\n".join(map(str, findings))
