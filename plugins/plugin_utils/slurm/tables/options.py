# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's options, release by release: is this one known, in force, and of the right type?

The table (options.json) is made by tools/slurm_options.py from Slurm's own parser tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from . import option_values

# What the user edits, for messages.
PLACES = {
    "slurm": "slurm.conf",
    "node": "the NodeName lines of slurm.conf",
    "partition": "the PartitionName lines of slurm.conf",
    "nodeset": "the NodeSet lines of slurm.conf",
    "downnodes": "the DownNodes lines of slurm.conf",
    "cgroup": "cgroup.conf",
    "slurmdbd": "slurmdbd.conf",
    "gres": "gres.conf",
    "switch": "topology.conf (topology/tree)",
    "block": "topology.conf (topology/block)",
}

# From 23.11 `scontrol reconfigure` re-executes the daemons: scontrol(1) excepts only their ports and authentication.
# A daemon that runs as one user cannot become another one.
_REEXEC = "23.11"
_NOT_REEXEC: dict[str, list[str]] = {
    "AuthAltTypes": ["slurmctld", "slurmd"],
    "AuthType": ["slurmctld", "slurmd"],
    "CredType": ["slurmctld", "slurmd"],
    "CryptoType": ["slurmctld", "slurmd"],
    # Seen on 24.11.5: after a reconfigure slurmctld answers nobody, `hash plugin with id:4 not exist or is not loaded`.
    "HashPlugin": ["slurmctld", "slurmd"],
    "SlurmUser": ["slurmctld"],
    "SlurmctldPort": ["slurmctld", "slurmd"],
    "SlurmdPort": ["slurmctld", "slurmd"],
    "SlurmdUser": ["slurmd"],
}
# Before that: what slurm.conf(5) lists (in the table), nodes that come or change, and plugins, loaded at the start.
_NODES = ["slurmctld", "slurmd"]
_PLUGIN = re.compile(r".*(Type|Plugins?|PlugStackConfig)\Z")
# slurmctld loads these again by itself.
_RELOADED = {"JobSubmitPlugins", "CliFilterPlugins"}

_BOOLEAN = {"yes", "no", "true", "false", "up", "down", "1", "0"}
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([kK]?)\Z")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_BITS = {"uint16": 16, "uint32": 32, "uint64": 64, "long": 64}
_ENDLESS = {"unlimited", "infinite"}


@dataclass(frozen=True)
class OptionMistake:
    """A mistake of one option."""

    key: str
    message: str


class UnknownVersionError(ValueError):
    """A Slurm release that the table does not have."""


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(Path(__file__).with_name("options.json").read_text(encoding="utf-8"))
    return table


@cache
def _names(kind: str) -> dict[str, str]:
    """Lower case to the spelling of Slurm, which does not mind case."""
    return {name.lower(): name for name in _table()["options"][kind]}


def releases() -> list[str]:
    """Return the Slurm releases that the table has, oldest first."""
    return list(_table()["releases"])


def release(version: str) -> str:
    """Return the release of a version: 24.11 for 24.11.5."""
    match = re.search(r"(?<![0-9.])([0-9]{2}\.[0-9]{2})(?![0-9])", str(version))
    if not match or match[1] not in releases():
        raise UnknownVersionError(
            f"Slurm {version!r} is not in the option table; known releases: {', '.join(releases())}. "
            "tools/slurm_options.py adds a new one."
        )
    return match[1]


def canonical(kind: str, name: str) -> str | None:
    """Return Slurm's spelling of an option, or None when no release knows it."""
    return _names(kind).get(name.lower())


def known(version: str, kind: str) -> list[str]:
    """Return the options that may be set in this version."""
    now = release(version)
    return [name for name, option in _table()["options"][kind].items() if _status(option, now) == ""]


def check(version: str, kind: str, options: Mapping[str, object]) -> list[OptionMistake]:
    """Return everything Slurm would refuse or ignore in these options."""
    now = release(version)
    if kind not in PLACES:
        raise ValueError(f"kind {kind!r} is unknown; allowed: {', '.join(PLACES)}")
    problems: list[OptionMistake] = []
    seen: dict[str, str] = {}
    for key, value in options.items():
        name = canonical(kind, str(key))
        option = _table()["options"][kind].get(name)
        status = _status(option, now) if option else ""
        if name is None:
            message = _unknown(str(key), kind, now)
        elif name in seen:
            message = f"{key!r} is the same option as {seen[name]!r}; keep one"
        elif status:
            message = f"option {name!r} of {PLACES[kind]} {status}"
        else:
            message = _value(kind, name, _type(option["type"], now), value, now)
        if name is not None:
            seen.setdefault(name, str(key))
        if message:
            problems.append(OptionMistake(str(key), message))
    return problems


def _status(option: Mapping[str, Any], now: str) -> str:
    """Say why an option cannot be set in this release, or nothing."""
    if now < option.get("since", now):
        return f"exists from Slurm {option['since']} on; this is {now}"
    if now >= option.get("removed", "99"):
        return f"was removed in Slurm {option['removed']}; this is {now}: delete it"
    if now >= option.get("defunct", "99"):
        return f"is defunct since Slurm {option['defunct']}; this is {now}: delete it"
    return ""


def _unknown(key: str, kind: str, now: str) -> str:
    message = f"unknown option {key!r} for Slurm {now} in {PLACES[kind]}"
    elsewhere = [PLACES[other] for other in PLACES if other != kind and canonical(other, key) in known(now, other)]
    if elsewhere:
        return f"{message}; it belongs in {' or '.join(elsewhere)}"
    return message + did_you_mean(key, known(now, kind), lead="; did", quoted=False, fold=True)


def _type(types: str | dict[str, str], now: str) -> str:
    """Return the type in this release; where it changed, the table has the release of each change."""
    if isinstance(types, str):
        return types
    return [kind for since, kind in sorted(types.items()) if since <= now][-1]


def _value(kind: str, name: str, type_: str, value: object, now: str) -> str:
    """Return the mistake of a value, or an empty text."""
    if value is None or value == "":
        return f"{name} has no value; delete it or give it one"
    items = list(value) if isinstance(value, (list, tuple)) and type_ in ("string", "array") else [value]
    for item in items:
        if not isinstance(item, (str, int, float)):
            shown = "..." if name.endswith("Pass") else repr(item)
            return f"{name} is {shown} ({type(item).__name__}); allowed: {_allowed(type_)}"
        if re.search(r"[\n\r]", str(item)):
            return f"{name} has a line break: Slurm would read the next line as another option"
        if re.search(r"(?<!\\)#", str(item)):
            # Without the value: it may be a password.
            return f"{name} has a '#', which begins a comment; write it as \\#"
    text = ",".join(_text(item) for item in items)
    if type_ == "boolean":
        return "" if text.lower() in _BOOLEAN else _wrong(name, value, type_)
    if type_ in _BITS:
        return "" if _fits(value, type_) else _wrong(name, value, type_)
    if type_ in ("float", "double", "long_double"):
        good = not isinstance(value, bool) and (_FLOAT.match(text) or text.lower() in _ENDLESS)
        return "" if good else _wrong(name, value, type_)
    return _enumerated(kind, name, text, now)


def _text(value: object) -> str:
    """Write a value as Slurm reads it."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _wrong(name: str, value: object, type_: str) -> str:
    return f"{name} is {value!r}; allowed: {_allowed(type_)}"


def _allowed(type_: str) -> str:
    if type_ == "boolean":
        return "yes or no"
    if type_ in _BITS:
        return f"a number from 0 to {2 ** _BITS[type_] - 1}, or UNLIMITED"
    return "a number, or UNLIMITED" if "float" in type_ or "double" in type_ else "text"


def _fits(value: object, type_: str) -> bool:
    """Return whether Slurm reads the value as a number of this type; K counts 1024, as in Slurm."""
    text = str(value)
    if text.lower() in _ENDLESS:
        return True
    match = _INTEGER.match(text)
    if isinstance(value, bool) or not match or (match[2] and type_ in ("uint16", "long")):
        return False
    digits = match[1]
    if len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX" and not re.match(r"[0-7]+\Z", digits):
        return False  # a zero in front means octal
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" and len(digits) > 1 else 10
    limit: int = 2 ** _BITS[type_]
    return int(digits, base) * (1024 if match[2] else 1) < limit


def _enumerated(kind: str, name: str, text: str, now: str) -> str:
    """Check against the values an option takes, where all of them are known."""
    one, many = option_values.ONE.get((kind, name)), option_values.MANY.get((kind, name))
    allowed = one or many
    if allowed is None:
        return ""
    by_case = {value.lower(): since for value, since in allowed.items()}
    current = ", ".join(value for value, since in allowed.items() if since <= now)
    for item in [text] if one else text.split(","):
        since = by_case.get(item.strip().lower())
        if since is None:
            return f"{name} has no value {item!r} in Slurm {now}; allowed: {current}"
        if since > now:
            return f"{name}={item} exists from Slurm {since} on; this is {now}; allowed: {current}"
    return ""


def restart_needed(
    version: str, old: Mapping[str, object], new: Mapping[str, object], daemon: str | None = None
) -> list[str]:
    """Return the changed options of slurm.conf that `scontrol reconfigure` does not apply.

    Lines may be given whole: NodeName and NodeSet with whatever stands for all nodes. With `daemon` ("slurmctld" or
    "slurmd"), only the options for which that daemon is to be restarted.
    """
    now = release(version)
    before, after = _canonical(old), _canonical(new)
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return [name for name in changed if (daemon or "slurm") in " ".join(_restart(name, now))]


def _restart(name: str, now: str) -> list[str]:
    """Return the daemons to restart when this option changes."""
    if now >= _REEXEC:
        return _NOT_REEXEC.get(name, [])
    table: dict[str, list[str]] = _table()["restart"][now]
    daemons = {*table.get(name, []), *_NOT_REEXEC.get(name, [])}
    if name == "NodeName":
        daemons.update(_NODES)
    if _PLUGIN.match(name) and name not in _RELOADED:
        daemons.update(["slurmctld", "slurmd"])
    return sorted(daemons)


def _canonical(options: Mapping[str, object]) -> dict[str, object]:
    """Return options in one spelling, so that only a change of value counts as a change."""
    result: dict[str, object] = {}
    for key, value in options.items():
        if isinstance(value, (list, tuple)) and not any(isinstance(item, Mapping) for item in value):
            value = ",".join(_text(item) for item in value)
        result[canonical("slurm", str(key)) or str(key)] = _text(value) if isinstance(value, (int, float)) else value
    return result
