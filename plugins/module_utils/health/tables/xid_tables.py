# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the tables of kernel events: xid.json, sxid.json and kernel_lines.json, beside this module.

A row that the reader does not understand is an error, so that a typing mistake in a table fails a test and never drops a rule. A code
without a row gets a row of the class `note` with `known` false: it is reported, and never drains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..facts.health_finding import CLASSES, NOTE
from .xid_rows import (
    FOLLOWED,
    NOT_IN_TABLE,
    RULES,
    TABLE,
    Example,
    JobsRule,
    LineRow,
    RecoveryAction,
    RegisterRow,
    Repeat,
    SxidRow,
    XidRow,
    XidTable,
)

KINDS_OF_SXID = ("non-fatal", "potential", "always")
_HERE = Path(__file__).parent


class TableError(ValueError):
    """A table with a row that the reader does not understand."""


@cache
def xids() -> XidTable:
    """Return xid.json. TableError: a row that the reader does not understand."""
    data = _document("xid.json")
    try:
        return XidTable(
            _by_code([_xid(row) for row in data["rows"]]),
            float(data["apart_seconds"]),
            _jobs(data["jobs"]),
            {
                row["number"]: RecoveryAction(row["number"], row["name"], _class(row), row["action"])
                for row in data["recovery_actions"]
            },
            tuple(_register(row) for row in data["registers"]),
        )
    except (KeyError, TypeError) as error:
        raise TableError(f"xid.json: {error!r}") from error


@cache
def sxids() -> Mapping[int, SxidRow]:
    """Return sxid.json by code. TableError: a row that the reader does not understand."""
    return _by_code([_sxid(row) for row in _document("sxid.json")["rows"]])


def sxid_row(code: int) -> SxidRow:
    """Return the row of a SXid, or a row that is not known."""
    return sxids().get(code) or SxidRow(code, "", "potential", NOTE, NOTE, NOT_IN_TABLE, NOT_IN_TABLE, known=False)


@cache
def line_rows() -> tuple[LineRow, ...]:
    """Return the rows of kernel_lines.json. TableError: a row that the reader does not understand."""
    return tuple(_line(row) for row in _document("kernel_lines.json")["rows"])


def _document(name: str) -> dict[str, Any]:
    found = json.loads((_HERE / name).read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TableError(f"{name}: expected an object")
    return found


def _xid(row: Mapping[str, Any]) -> XidRow:
    allowed = (
        "code",
        "name",
        "bucket",
        "class",
        "action",
        "rule",
        "followed",
        "link",
        "escalate",
        "from",
        "verified",
        "examples",
    )
    _check_keys(row, allowed)
    rule = row.get("rule", TABLE)
    if rule not in RULES:
        raise TableError(f"Xid {row['code']}: rule {rule!r}; allowed: {', '.join(RULES)}")
    followed = row.get("followed", {})
    if (rule == FOLLOWED) != bool(followed):
        raise TableError(f"Xid {row['code']}: `followed` belongs to the rule {FOLLOWED}")
    return XidRow(
        row["code"],
        row["name"],
        row["bucket"],
        _class(row),
        row["action"],
        rule,
        tuple(followed.get("codes", ())),
        float(followed.get("seconds", 0)),
        row.get("link", False),
        _repeat(row.get("escalate")),
        row["from"],
        row["verified"],
        _examples(row),
    )


def _sxid(row: Mapping[str, Any]) -> SxidRow:
    kinds = ("fatal", "nonfatal", "fatal_action", "nonfatal_action")
    _check_keys(row, ("code", "name", "kind", *kinds, "from", "verified", "examples"))
    if row["kind"] not in KINDS_OF_SXID:
        raise TableError(f"SXid {row['code']}: kind {row['kind']!r}; allowed: {', '.join(KINDS_OF_SXID)}")
    fatal, nonfatal = _class(row, "fatal"), _class(row, "nonfatal")
    actions = (row["fatal_action"], row["nonfatal_action"])
    return SxidRow(
        row["code"], row["name"], row["kind"], fatal, nonfatal, *actions, row["from"], row["verified"], _examples(row)
    )


def _line(row: Mapping[str, Any]) -> LineRow:
    _check_keys(row, ("id", "kind", "contains", "pattern", "class", "action", "from", "verified", "examples"))
    pattern = re.compile(row["pattern"])
    return LineRow(
        row["id"],
        row["kind"],
        row["contains"],
        pattern,
        _class(row),
        row["action"],
        row["from"],
        row["verified"],
        _examples(row),
    )


def _register(row: Mapping[str, Any]) -> RegisterRow:
    _check_keys(row, ("kind", "bits", "class", "accompanied", "action", "escalate"))
    accompanied = _class(row, "accompanied") if "accompanied" in row else ""
    bits = frozenset((int(register), bit) for register, found in row["bits"].items() for bit in found)
    return RegisterRow(row["kind"], bits, _class(row), accompanied, row["action"], _repeat(row.get("escalate")))


def _jobs(row: Mapping[str, Any]) -> JobsRule:
    return JobsRule(row["check"], row["bucket"], row["jobs"], float(row["hours"]), _class(row), row["action"])


def _repeat(row: Mapping[str, Any] | None) -> Repeat | None:
    if row is None:
        return None
    _check_keys(row, ("check", "count", "hours", "same", "class", "action"))
    return Repeat(row["check"], row["count"], float(row["hours"]), tuple(row["same"]), _class(row), row["action"])


def _examples(row: Mapping[str, Any]) -> tuple[Example, ...]:
    return tuple(Example(one["line"], one["source"]) for one in row.get("examples", ()))


def _class(row: Mapping[str, Any], key: str = "class") -> str:
    found = row[key]
    if found not in CLASSES:
        raise TableError(f"{row}: {key} {found!r}; allowed: {', '.join(CLASSES)}")
    return str(found)


def _check_keys(row: Mapping[str, Any], allowed: Sequence[str]) -> None:
    unknown = sorted(set(row) - set(allowed))
    if unknown:
        raise TableError(f"{row}: unknown key {unknown[0]!r}; allowed: {', '.join(allowed)}")


def _by_code(rows: Sequence[Any]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for row in rows:
        if row.code in found:
            raise TableError(f"code {row.code}: two rows")
        found[row.code] = row
    return found
