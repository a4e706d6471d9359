# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of playbooks/roll.yml: their defaults, and mistakes in their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

PREFIX = "roll_"
_WORDS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class RunVariable:
    """A variable: its default, which values it takes, for operators, whether a value is one of them, and its type."""

    default: object
    allowed: str
    takes: Callable[[object], bool]
    type: Callable[[Any], object] = str


def _number(low: float, high: float, whole: bool = True) -> Callable[[object], bool]:
    def takes(value: object) -> bool:
        try:
            number = float(str(value))
        except ValueError:
            return False
        return low <= number <= high and (not whole or number == int(number))

    return takes


def matches(pattern: str) -> Callable[[object], bool]:
    """Return a check that a text matches a regular expression as a whole."""
    return lambda value: re.fullmatch(pattern, str(value)) is not None


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or str(value).lower() in _WORDS


def _bool(value: object) -> bool:
    return value if isinstance(value, bool) else _WORDS[str(value).lower()]


def _whole(value: object) -> int:
    """Return a whole number; Ansible has the texts 1e3 and 3.0 as they are."""
    return int(float(str(value)))


def seconds(default: int) -> RunVariable:
    """Return a variable for a duration."""
    return RunVariable(default, "whole seconds, such as 3600; at most 604800", _number(0, 604_800), _whole)


_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?|now(\+\d+(minutes|hours|days))?"
_SWITCH = RunVariable(False, "true or false", _is_bool, _bool)
VARIABLES: dict[str, RunVariable] = {
    "roll_percent": RunVariable(5.0, "a percentage above 0, at most 100", _number(0.001, 100, whole=False), float),
    "roll_failures": RunVariable(0, "a number of nodes from 0", _number(0, 1_000_000), _whole),
    "roll_deadline": seconds(14_400),
    "roll_patience": seconds(120),
    "roll_reboot_deadline": seconds(2400),
    "roll_waiting_fails": _SWITCH,
    "roll_reserved": _SWITCH,
    "roll_packages": _SWITCH,
    "roll_when": RunVariable("now", "now, reservation", lambda value: value in ("now", "reservation")),
    "roll_start": RunVariable("", "a time such as 2026-11-27T22:00:00, or now+2hours", matches(_TIME)),
    "roll_hours": RunVariable(4.0, "hours from 0.1 to 720", _number(0.1, 720, whole=False), float),
    "roll_ended": RunVariable("", "the 8 digits and letters a-f of a run", matches("[0-9a-f]{8}")),
    "roll_plan_file": RunVariable("", "a path", lambda value: isinstance(value, str) and bool(value)),
    "roll_plan_digest": RunVariable(
        "", "64 digits and letters a-f, as the preview prints them", matches("[0-9a-f]{64}")
    ),
}


def value_mistakes(
    variables: Mapping[str, object], known: Mapping[str, RunVariable], prefix: str, playbook: str
) -> list[str]:
    """Return each misspelt variable of a playbook, and each value that is not allowed; its variables begin with a prefix."""
    found = []
    for name in sorted(one for one in variables if one.startswith(prefix)):
        if name not in known:
            allowed = f"allowed: {', '.join(known)}"
            hint = did_you_mean(name, known, lead="did", quoted=False, prefix=prefix, otherwise=allowed)
            found.append(f"{name} is not a variable of playbooks/{playbook}.yml; {hint}")
        elif not known[name].takes(variables[name]):
            value = variables[name]
            shown = "empty" if value is None else repr(value)
            found.append(f"{name}: {shown}; allowed: {known[name].allowed}")
    return found


def mistakes(variables: Mapping[str, object]) -> list[str]:
    """Return each misspelt variable of the roll, each value that is not allowed, and what they miss in each other."""
    found = value_mistakes(variables, VARIABLES, PREFIX, "roll")
    if "roll_plan_digest" in variables and "roll_plan_file" not in variables:
        found.append("roll_plan_digest without roll_plan_file: set the file of the approved plan, too")
    if "roll_start" in variables and variables.get("roll_when") != "reservation":
        found.append("roll_start without roll_when=reservation: set both, or neither")
    return found


def controller_mistakes(controllers: Collection[str], playbook: str = "roll") -> list[str]:
    """Return the mistake of a run of roll or recover without a Slurm controller."""
    if controllers:
        return []
    return [
        f"the group slurm_controllers has no machine, and playbooks/{playbook}.yml drains and resumes nodes through Slurm. Without Slurm, "
        "run playbooks/site.yml, and then playbooks/reboot.yml"
    ]


def choices(
    variables: Mapping[str, object], known: Mapping[str, RunVariable] | None = None, prefix: str = PREFIX
) -> dict[str, Any]:
    """Return the value of each variable, without its prefix; by default of a roll's variables. Raises ValueError for mistakes.

    >>> choices({"roll_percent": "10"})["percent"]
    10.0
    """
    return {
        name.removeprefix(prefix): one.type(variables[name]) if name in variables else one.default
        for name, one in (VARIABLES if known is None else known).items()
    }
