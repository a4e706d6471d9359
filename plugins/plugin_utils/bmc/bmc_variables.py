# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the playbooks that command BMCs: their defaults, and mistakes in their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..common import run_variables
from ..common.run_variables import SWITCH, RunVariable, as_whole, matches, number

_FOLDER = RunVariable("", "the path of a folder", lambda value: isinstance(value, str))
_PORT = RunVariable(443, "a TCP port from 1 to 65535", number(1, 65535), as_whole)
_NODES = RunVariable("", "names of nodes as a hostlist, such as gpu[01-04]", lambda value: isinstance(value, str))
_USER = matches("[A-Za-z][A-Za-z0-9_-]{0,15}")
_MOST_NODES = number(1, 1_000_000)


def _is_servers(value: object) -> bool:
    found = _servers(value)
    is_text = all(isinstance(one, str) for one in (value if isinstance(value, list) else [value]))
    return is_text and bool(found) and all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}", one) for one in found)


def _servers(value: Any) -> tuple[str, ...]:
    """Return the servers of a text with commas, or of a list."""
    listed = value if isinstance(value, list) else str(value).split(",")
    return tuple(str(one).strip() for one in listed)


COMMON: dict[str, RunVariable] = {"bmc_port": _PORT}
REPORTS: dict[str, RunVariable] = {**COMMON, "bmc_report": _FOLDER}
DISCOVER: dict[str, RunVariable] = {**REPORTS, "bmc_record": SWITCH}
COMMISSION: dict[str, RunVariable] = {
    **REPORTS,
    "bmc_nodes": _NODES,
    "bmc_user": RunVariable(
        "bedplate",
        "a name of at most 16 letters, digits, - and _",
        lambda value: isinstance(value, str) and _USER(value),
    ),
    "bmc_ntp": RunVariable((), "addresses or names of NTP servers with commas between them", _is_servers, _servers),
    "bmc_keep_ipmi": SWITCH,
    "bmc_ca_key": RunVariable("", "the absolute path of a CA's key, or make", lambda value: isinstance(value, str)),
    "bmc_certificate_days": RunVariable(1095, "whole days from 60 to 7300", number(60, 7300), as_whole),
}
POWER: dict[str, RunVariable] = {
    "power": RunVariable("", "on, off, cycle", lambda value: value in ("on", "off", "cycle")),
    "power_nodes": _NODES,
    "power_without_slurm": _NODES,
    "power_at_once": RunVariable(64, "a number of nodes from 1 to 1024", number(1, 1024), as_whole),
    "power_graceful": RunVariable(120, "whole seconds from 0 to 3600", number(0, 3600), as_whole),
}
FIRMWARE: dict[str, RunVariable] = {
    "firmware_wave": RunVariable(8, "a number of nodes from 1", _MOST_NODES, as_whole),
    "firmware_per_rack": RunVariable(None, "a number of nodes from 1", _MOST_NODES, as_whole),
    "firmware_per_partition": RunVariable(None, "a number of nodes from 1", _MOST_NODES, as_whole),
}
PREFIXES = {"bmc_": {**DISCOVER, **COMMISSION}, "power": POWER, "firmware_": FIRMWARE}
"""First letters of variables -> all of them: a name of another playbook is not misspelt."""
PLAYBOOKS: dict[str, dict[str, RunVariable]] = {
    "bmc_discover": DISCOVER,
    "bmc_commission": COMMISSION,
    "power": {**POWER, **COMMON},
    "firmware": {**FIRMWARE, **REPORTS},
    "bios": REPORTS,
}
"""Playbook -> the variables that it takes."""

_NEEDED = {"power": {"power": "off", "power_nodes": "gpu[01-04]"}, "bmc_commission": {"bmc_nodes": "gpu[01-04]"}}
"""Playbook -> the variables without a default, with an example."""


def mistakes(variables: Mapping[str, object], playbook: str) -> list[str]:
    """Return each misspelt variable of a playbook, each value that is not allowed, and each missing variable.

    `on` and `off` without quotes are YAML's true and false; as text of `-e` they are not.
    """
    own = PLAYBOOKS[playbook]
    prefixes = [prefix for prefix, known in PREFIXES.items() if set(known) & set(own)]
    found = [
        text
        for prefix in prefixes
        for text in run_variables.mistakes(_plain(variables), PREFIXES[prefix], prefix, f"{playbook}.yml")
    ]
    return found + [
        f"{name} is missing; allowed: {own[name].allowed}. Set it with -e {name}={example}"
        for name, example in _NEEDED.get(playbook, {}).items()
        if name not in variables
    ]


def stated_of(variables: Mapping[str, Any], template: Callable[[Any], Any], playbook: str) -> dict[str, Any]:
    """Return the variables of a playbook that a task has, with their templates filled in."""
    return {name: template(variables[name]) for name in PLAYBOOKS[playbook] if name in variables}


def run_mistakes(
    variables: Mapping[str, Any], extra: Mapping[str, Any], template: Callable[[Any], Any], playbook: str
) -> list[str]:
    """Return all mistakes in the variables of a run. `variables` belong to the task, `extra` to the command line."""
    stated = stated_of(variables, template, playbook)
    named = {name: value for name, value in extra.items() if name not in stated}
    found = [*mistakes({**named, **stated}, playbook), *foreign(extra, playbook)]
    return [*found, *slips(extra, variables, playbook)]


def foreign(named: Iterable[str], playbook: str, own: Iterable[str] = ()) -> list[str]:
    """Return each variable of the command line that another playbook takes, and this one does not: it would have no effect.

    `own` are the variables of a playbook that is not in `PLAYBOOKS`.
    """
    found = []
    for name in sorted(set(named) - set(own) - PLAYBOOKS.get(playbook, {}).keys()):
        if others := [f"{other}.yml" for other, known in PLAYBOOKS.items() if name in known]:
            remedy = "Leave it out; --limit narrows the nodes."
            found.append(f"{name} is a variable of {', '.join(others)}, not of {playbook}.yml. {remedy}")
    return found


def slips(named: Iterable[str], inventory: Iterable[str], playbook: str) -> list[str]:
    """Return each name that is nearly a variable of the playbook, and that `mistakes` does not find by its first letters.

    `named` are those of the command line, `inventory` all others.
    """
    prefixes = tuple(prefix for prefix, known in PREFIXES.items() if set(known) & set(PLAYBOOKS[playbook]))
    others = {name for known in PLAYBOOKS.values() for name in known}
    return run_variables.slips(
        (name for name in named if not name.startswith(prefixes)), inventory, PLAYBOOKS[playbook], others, playbook
    )


def choices(variables: Mapping[str, object], playbook: str) -> dict[str, Any]:
    """Return the value of each variable of a playbook, by its whole name. Raises ValueError for values that `mistakes` names."""
    return run_variables.choices(_plain(variables), PLAYBOOKS[playbook], "")


def _plain(variables: Mapping[str, object]) -> dict[str, object]:
    """Return the variables with `power` as a text where YAML has read on or off as a boolean."""
    words: dict[object, str] = {True: "on", False: "off"}
    power = variables.get("power")
    return {**variables, "power": words[power]} if isinstance(power, bool) else dict(variables)
