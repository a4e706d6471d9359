"""The kinds of drift of slurm.yml, and what verify has to say of them on a running cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml


def rows_of(slurmd: str) -> list[dict[str, Any]]:
    """Return the rows for a cluster whose package of slurmd has this name."""
    rows: list[dict[str, Any]] = yaml.safe_load(
        Path(__file__).with_name("slurm.yml").read_text().replace("@slurmd@", slurmd)
    )
    return rows


ROWS = rows_of("slurmd")
# What cannot be compared in a container.
_NO_DRIFT = "not-checked"


def is_of(row: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    """Return whether a finding is that of a row, with who overrides it."""
    key = (row["kind"], row["where"], row.get("reported_on", row["machine"]))
    by = row["overridden_by"]
    return (one["kind"], one["where"], one["machine"]) == key and (
        by in one["overridden_by"] if by else not one["overridden_by"]
    )


def missed(rows: Iterable[Mapping[str, Any]], findings: list[dict[str, Any]]) -> list[str]:
    """Return the rows that no finding names."""
    return [row["id"] for row in rows if not any(is_of(row, one) for one in findings)]


def others(rows: Iterable[Mapping[str, Any]], findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the findings that neither are of a row nor lie beside one."""
    drifts = list(rows)
    beside = [one for row in drifts for one in row.get("beside", [])]
    return [
        one
        for one in findings
        if one["kind"] != _NO_DRIFT
        and not any(is_of(row, one) for row in drifts)
        and not any(one["machine"] == each["machine"] and fnmatchcase(one["where"], each["where"]) for each in beside)
    ]
