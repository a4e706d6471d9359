# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about BMCs: their kinds, the findings of failed contacts, and their text with one line for all machines that have the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...module_utils.common.finding import ERROR, NOTICE, WARNING, Finding, ordered, to_json
from ...module_utils.common.hostlist import fold
from ..common.junit import junit
from ..machines.machine_values import BMC_FINGERPRINT
from ..redfish.errors import TIMEOUT, UNREACHABLE, WRONG_CERTIFICATE, BmcError
from .bmc_targets import Target

MISSING, SWAPPED, UNKNOWN, DIFFERENT, UNREAD = (
    "bmc-missing",
    "bmc-swapped",
    "bmc-unknown",
    "bmc-different",
    "bmc-unread",
)
KINDS = {
    MISSING: "BMCs that do not answer",
    SWAPPED: "machines at the address of another",
    UNKNOWN: "machines that are not on record",
    DIFFERENT: "machines that differ from the record",
    UNREAD: "BMCs that answer and cannot be read",
}
_WORDS = {ERROR: "ERROR", WARNING: "WARNING", NOTICE: "NOTICE"}
_MOST_LINES = 60
_COLUMNS = ("severity", "state", "machines", "place")
_WIDEST = 40  # characters of a column


def of_error(target: Target, error: BmcError) -> Finding:
    """Return the finding of a contact that failed."""
    where = f"BMC {target.address}"
    if error.kind in (UNREACHABLE, TIMEOUT):
        return Finding(MISSING, where, "", error.what, error.remedy, machine=target.node)
    if error.kind == WRONG_CERTIFICATE and error.expected:
        remedy = (
            f"Find out who changed the certificate. If the BMC or its certificate is new, remove {BMC_FINGERPRINT} from its line in the "
            "record, and run bmc_discover.yml -e bmc_record=true"
        )
        place = f"{where} {BMC_FINGERPRINT}"
        return Finding(DIFFERENT, place, error.expected, error.found, remedy, machine=target.node)
    status = f" (HTTP {error.status})" if error.status else ""
    path = f" {error.path}" if error.path else ""
    said = f". The BMC reports: {' '.join(map(str, error.messages))}" if error.messages else ""
    found = f"{error.what}{path}{status}{said}"
    return Finding(UNREAD, where, error.expected, error.found or found, error.remedy, machine=target.node)


def lines(findings: Iterable[Finding], targets: Mapping[str, Target], most: int = _MOST_LINES) -> list[str]:
    """Return findings as rows of a table, the gravest first: one for all machines with the same finding; at most `most`."""
    groups: dict[Finding, list[str]] = {}
    for one in findings:
        groups.setdefault(_without_place(one, targets), []).append(one.machine)
    rows = [_cells(key, groups[key], targets) for key in ordered(groups)]
    shown = rows[:most]
    widths = [min(_WIDEST, max((len(row[at]) for row in shown), default=0)) for at in range(len(_COLUMNS))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True)) for row in shown]
    if len(rows) > most:
        text.append(f"... and {len(rows) - most} more rows, all in the report")
    return text


def _cells(one: Finding, names: Sequence[str], targets: Mapping[str, Target]) -> tuple[str, ...]:
    """Return severity, state, machines, place, and the difference with its remedy."""
    where = one.where
    if len(names) == 1 and names[0] in targets:
        where = where.replace("BMC", f"BMC {targets[names[0]].address}", 1)
    remedy = f" -> {one.remedy}" if one.remedy else ""
    return _WORDS[one.severity], one.kind.removeprefix("bmc-"), fold(names), where, f"{one.difference}{remedy}"


def _without_place(one: Finding, targets: Mapping[str, Target]) -> Finding:
    """Return a finding without the names of its machine and address, so that equal ones of many machines are one."""
    target = targets.get(one.machine)
    if target is None:
        return replace(one, machine="")
    where = one.where.replace(f"BMC {target.address}", "BMC", 1)
    found = one.found.replace(f" to {target.address} port", " to port", 1)
    return replace(one, machine="", where=where, found=found)


def documents(
    name: str, kinds: Mapping[str, str], findings: Sequence[Finding], data: Mapping[str, Any]
) -> dict[str, str]:
    """Return suffix -> text of a report: `json` with `data` and the findings, and `xml` for a CI."""
    found = {**data, "findings": to_json(findings)}
    return {"json": _json(found), "xml": junit(name, name.partition(" ")[0], kinds, findings)}


def _json(data: Mapping[str, Any]) -> str:
    """Return JSON with a line for each machine and each finding, so that two reports can be compared."""
    parts = []
    for key, value in data.items():
        if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
            rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{rows}\n }}")
        elif isinstance(value, list) and value:
            rows = ",\n".join(f"  {json.dumps(one)}" for one in value)
            parts.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
