# SPDX-License-Identifier: GPL-3.0-or-later
"""Read /etc/bedplate/health.json, and name the files that the agent uses.

An example: {"node": "gpu001", "interval": 60, "profile": {"gpus": 8}, "ignore": [{"check": "xid-94", "until": "2026-12-31"}],
"evidence": {"days": 30, "bytes": 2147483648}, "textfile": "/var/lib/prometheus/node-exporter/bedplate_health.prom"}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from ..facts.node_facts import NodeProfile

SHORTEST, LONGEST = 1, 3600
"""Seconds that a tick may last."""
_KEYS = {"node", "interval", "profile", "ignore", "evidence", "textfile", "probes"}
_PROBES = {"dcgm", "gpud", "validation", "library", "smi", "exclude"}
_KINDS: Mapping[str, Any] = {
    "model": str,
    "gpus": int,
    "nvlink": bool,
    "rails": list,
    "rails_needed": int,
    "mounts": list,
    "huge_pages": dict,
    "thresholds": dict,
    "ignore": list,
    "quiet_after_boot": (int, float),
    "driver": str,
}


class SettingsError(ValueError):
    """Settings that the agent cannot use: it ends with them, because a guess could call a sick node well."""


@dataclass(frozen=True)
class AgentSettings:
    """Hold the settings of a node. `interval`: seconds of a tick. `ignore`: check -> last day (UTC), None without an end.

    `probes`: keys of ProbeSettings that the site changes. `textfile`: path for node exporter, "" without one.
    """

    node: str
    profile: NodeProfile = field(default_factory=NodeProfile)
    interval: float = 60.0
    ignore: Mapping[str, date | None] = field(default_factory=dict)
    evidence_days: int = 30
    evidence_bytes: int = 2 << 30
    textfile: str = ""
    probes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def valid(self) -> int:
        """Return the seconds for which a verdict is valid: three ticks."""
        return int(3 * self.interval)

    def profile_at(self, time: float) -> NodeProfile:
        """Return the profile with the checks that the site ignores on the day of `time`, in seconds since 1970."""
        day = _day(time)
        live = [check for check, until in self.ignore.items() if until is None or (day is not None and day <= until)]
        return replace(self.profile, ignore=tuple(dict.fromkeys((*self.profile.ignore, *live))))


@dataclass(frozen=True)
class AgentPaths:
    """Name the files of the agent below a root, which is / except in tests."""

    root: Path = Path("/")

    @property
    def run(self) -> Path:
        """Return the folder in memory that the prolog reads."""
        return self.root / "run/bedplate/health"

    @property
    def state(self) -> Path:
        """Return the folder on the disk."""
        return self.root / "var/lib/bedplate/health"

    def below(self, path: str) -> Path:
        """Return the path here of an absolute path of the node."""
        return self.root / path.lstrip("/")


def load(path: Path) -> AgentSettings:
    """Return the settings of a file. SettingsError: the file cannot be read, or a value is not valid."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: {error}") from error
    try:
        return settings_of(data)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error


def settings_of(data: Any) -> AgentSettings:
    """Return the settings of plain data. SettingsError: an unknown key, or a value that is not valid."""
    if not isinstance(data, dict):
        raise SettingsError("not a JSON object")
    _refuse_unknown(data, _KEYS, "")
    node, textfile = data.get("node", ""), data.get("textfile", "")
    if not isinstance(node, str) or not node or not isinstance(textfile, str):
        raise SettingsError("`node` and `textfile` must be texts, and `node` must not be empty")
    interval = data.get("interval", 60)
    if not _is_number(interval) or not SHORTEST <= interval <= LONGEST:
        raise SettingsError(f"interval {interval!r}; allowed: {SHORTEST} to {LONGEST} seconds")
    evidence, probes = data.get("evidence", {}), data.get("probes", {})
    if not isinstance(evidence, dict) or not isinstance(probes, dict):
        raise SettingsError("`evidence` and `probes` must be objects")
    _refuse_unknown(evidence, {"days", "bytes"}, "evidence.")
    _refuse_unknown(probes, _PROBES, "probes.")
    days, size = evidence.get("days", 30), evidence.get("bytes", 2 << 30)
    if not all(isinstance(one, int) and one > 0 for one in (days, size)):
        raise SettingsError("`evidence.days` and `evidence.bytes` must be whole numbers above 0")
    profile, ignore = _profile(data.get("profile", {})), _ignored(data.get("ignore", []))
    return AgentSettings(node, profile, float(interval), ignore, days, size, textfile, probes)


def _profile(data: Any) -> NodeProfile:
    if not isinstance(data, dict):
        raise SettingsError("`profile` must be an object")
    _refuse_unknown(data, {one.name for one in fields(NodeProfile)}, "profile.")
    for name, value in data.items():
        is_wrong = isinstance(value, bool) and _KINDS[name] is not bool
        if is_wrong or not isinstance(value, _KINDS[name]):
            raise SettingsError(f"profile.{name}: {value!r} is not valid")
        if isinstance(value, list) and not all(isinstance(one, str) for one in value):
            raise SettingsError(f"profile.{name}: {value!r} must have texts alone")
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in data.items()}
    return NodeProfile(**values)


def _ignored(rows: Any) -> dict[str, date | None]:
    if not isinstance(rows, list):
        raise SettingsError("`ignore` must be a list")
    found: dict[str, date | None] = {}
    for row in rows:
        try:
            check, until = row["check"], row.get("until")
            found[str(check)] = date.fromisoformat(until) if until else None
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise SettingsError(f"ignore: {row!r} is not a check with a day: {error}") from error
    return found


def _refuse_unknown(data: Mapping[str, Any], known: set[str], place: str) -> None:
    unknown = sorted(set(data) - known)
    if unknown:
        raise SettingsError(f"{place}{unknown[0]}: unknown key")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _day(time: float) -> date | None:
    """Return the day of a time; None for a time that no calendar has, so that an exception with an end does not count."""
    try:
        return datetime.fromtimestamp(time, timezone.utc).date()
    except (OverflowError, OSError, ValueError):
        return None
