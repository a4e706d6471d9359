# SPDX-License-Identifier: GPL-3.0-or-later
"""Read /etc/bedplate/health-control.json: caps, groups of nodes, and when the limiter acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from ...common.hostlist import expand

RACKS, PARTITIONS, DOMAINS, PROFILES, LEAVES = GROUPS = ("racks", "partitions", "nvlink_domains", "profiles", "leaves")
_CAPS = ("cluster", "nodes", "partition", "rack", "nvlink_domain", "keep", "drains", "seconds")


class SettingsError(ValueError):
    """Settings with which nothing may be drained. The text names the key."""


@dataclass(frozen=True)
class Caps:
    """Hold the most unavailable nodes at a drain: percent of all, number, percent of a partition, rack and NVLink domain.

    `keep`: available nodes of each partition that are never drained. `drains` in `seconds` are the rate.
    """

    cluster: int
    nodes: int
    partition: int
    rack: int
    nvlink_domain: int
    keep: int
    drains: int
    seconds: int


@dataclass(frozen=True)
class ControlSettings:
    """Hold the settings. `groups`: kind -> group -> its nodes. `dry_run_until` None: never act. Times in seconds."""

    caps: Caps
    groups: Mapping[str, Mapping[str, tuple[str, ...]]]
    dry_run_until: date | None = None
    resume: bool = True
    tick: int = 20
    state: str = "/var/lib/bedplate/health-control"
    textfile: str = ""
    of_node: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Node -> kind -> its groups."""

    def acts(self, today: date) -> bool:
        """Return whether nodes are drained and resumed on a day."""
        return self.dry_run_until is not None and today >= self.dry_run_until

    def groups_of(self, node: str, kind: str) -> tuple[str, ...]:
        """Return the groups of a kind that a node is in."""
        return self.of_node.get(node, {}).get(kind, ())


def load(path: Path) -> ControlSettings:
    """Return the settings of a file. SettingsError: the file, or a key of it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from error
    return build(data)


def build(data: Mapping[str, Any]) -> ControlSettings:
    """Return the settings of plain data."""
    try:
        caps = Caps(**{key: _number(data["caps"], key) for key in _CAPS})
        groups = {
            kind: {name: tuple(dict.fromkeys(expand(text))) for name, text in data["nodes"].get(kind, {}).items()}
            for kind in GROUPS
        }
        until = data["dry_run_until"]
        found = ControlSettings(
            caps,
            groups,
            date.fromisoformat(until) if until else None,
            data["resume"] == "transient",
            _number(data, "tick"),
            data["state"],
            data["textfile"],
            _of_nodes(groups),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SettingsError(f"{type(error).__name__}: {error}") from error
    return found


def _number(data: Mapping[str, Any], key: str) -> int:
    value = data[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < (0 if key == "keep" else 1):
        raise SettingsError(f"{key}: {value!r} is not a number from {0 if key == 'keep' else 1} on")
    return value


def _of_nodes(groups: Mapping[str, Mapping[str, tuple[str, ...]]]) -> dict[str, dict[str, tuple[str, ...]]]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for kind, members in groups.items():
        for name, nodes in members.items():
            for node in nodes:
                kinds = found.setdefault(node, {})
                kinds[kind] = (*kinds.get(kind, ()), name)
    return found
