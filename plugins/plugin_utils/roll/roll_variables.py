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
class RollVariable:
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


def _matches(pattern: str) -> Callable[[object], bool]:
    return lambda value: re.fullmatch(pattern, str(value)) is not None


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or str(value).lower() in _WORDS


def _bool(value: object) -> bool:
    return value if isinstance(value, bool) else _WORDS[str(value).lower()]


def _whole(value: object) -> int:
    """Return a whole number; Ansible has the texts 1e3 and 3.0 as they are."""
    return int(float(str(value)))


def _seconds(default: int) -> RollVariable:
    return RollVariable(default, "whole seconds, such as 3600; at most 604800", _number(0, 604_800), _whole)


_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?|now(\+\d+(minutes|hours|days))?"
_SWITCH = RollVariable(False, "true or false", _is_bool, _bool)
VARIABLES: dict[str, RollVariable] = {
    "roll_percent": RollVariable(5.0, "a percentage above 0, at most 100", _number(0.001, 100, whole=False), float),
    "roll_failures": RollVariable(0, "a number of nodes from 0", _number(0, 1_000_000), _whole),
    "roll_deadline": _seconds(14_400),
    "roll_patience": _seconds(120),
    "roll_reboot_deadline": _seconds(2400),
    "roll_waiting_fails": _SWITCH,
    "roll_reserved": _SWITCH,
    "roll_packages": _SWITCH,
    "roll_when": RollVariable("now", "now, reservation", lambda value: value in ("now", "reservation")),
    "roll_start": RollVariable("", "a time such as 2026-11-27T22:00:00, or now+2hours", _matches(_TIME)),
    "roll_hours": RollVariable(4.0, "hours from 0.1 to 720", _number(0.1, 720, whole=False), float),
    "roll_ended": RollVariable("", "the 8 digits and letters a-f of a run", _matches("[0-9a-f]{8}")),
    "roll_plan_file": RollVariable("", "a path", lambda value: isinstance(value, str) and bool(value)),
    "roll_plan_digest": RollVariable(
        "", "64 digits and letters a-f, as the preview prints them", _matches("[0-9a-f]{64}")
    ),
}


def mistakes(variables: Mapping[str, object]) -> list[str]:
    """Return each misspelt variable of the roll, each value that is not allowed, and what they miss in each other."""
    found = []
    for name in sorted(one for one in variables if one.startswith(PREFIX)):
        if name not in VARIABLES:
            allowed = f"allowed: {', '.join(VARIABLES)}"
            hint = did_you_mean(name, VARIABLES, lead="did", quoted=False, prefix=PREFIX, otherwise=allowed)
            found.append(f"{name} is not a variable of playbooks/roll.yml; {hint}")
        elif not VARIABLES[name].takes(variables[name]):
            value = variables[name]
            shown = "empty" if value is None else repr(value)
            found.append(f"{name}: {shown}; allowed: {VARIABLES[name].allowed}")
    if "roll_plan_digest" in variables and "roll_plan_file" not in variables:
        found.append("roll_plan_digest without roll_plan_file: set the file of the approved plan, too")
    if "roll_start" in variables and variables.get("roll_when") != "reservation":
        found.append("roll_start without roll_when=reservation: set both, or neither")
    return found


def controller_mistakes(controllers: Collection[str]) -> list[str]:
    """Return the mistake of a roll without a Slurm controller."""
    if controllers:
        return []
    return [
        "the group slurm_controllers has no machine, and playbooks/roll.yml drains and resumes nodes through Slurm. Without Slurm, "
        "run playbooks/site.yml, and then playbooks/reboot.yml"
    ]


def choices(variables: Mapping[str, object]) -> dict[str, Any]:
    """Return the value of each variable, without `roll_`. Raises ValueError for values that `mistakes` names.

    >>> choices({"roll_percent": "10"})["percent"]
    10.0
    """
    return {
        name.removeprefix(PREFIX): one.type(variables[name]) if name in variables else one.default
        for name, one in VARIABLES.items()
    }
