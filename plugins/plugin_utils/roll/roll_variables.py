# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of playbooks/roll.yml: their defaults, and mistakes in their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

PREFIX = "roll_"
_RUN = re.compile(r"[0-9a-z][0-9a-z_-]{0,39}\Z")
_WORDS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class RollVariable:
    """A variable: its default, which values it takes, for operators, and whether a value is one of them."""

    default: object
    allowed: str
    takes: Callable[[object], bool]


def _number(low: float, high: float, whole: bool = True) -> Callable[[object], bool]:
    def takes(value: object) -> bool:
        if isinstance(value, bool):
            return False
        try:
            number = float(str(value))
        except ValueError:
            return False
        return low <= number <= high and (not whole or number == int(number))

    return takes


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or str(value).lower() in _WORDS


_SECONDS = RollVariable(0, "whole seconds, such as 3600; at most 604800", _number(0, 604_800))
VARIABLES: dict[str, RollVariable] = {
    "roll_percent": RollVariable(5, "a percentage above 0, at most 100", _number(0.001, 100, whole=False)),
    "roll_failures": RollVariable(0, "a number of nodes from 0", _number(0, 1_000_000)),
    "roll_deadline": RollVariable(3600, _SECONDS.allowed, _SECONDS.takes),
    "roll_patience": RollVariable(120, _SECONDS.allowed, _SECONDS.takes),
    "roll_reboot_deadline": RollVariable(2400, _SECONDS.allowed, _SECONDS.takes),
    "roll_waiting_fails": RollVariable(False, "true or false", _is_bool),
    "roll_reserved": RollVariable(False, "true or false", _is_bool),
    "roll_run": RollVariable(
        "", "the name of an unfinished run: small letters, digits, _ and -", lambda value: bool(_RUN.match(str(value)))
    ),
}


def mistakes(variables: Mapping[str, object]) -> list[str]:
    """Return each misspelt variable of the roll, and each value that is not allowed."""
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
    return found


def names() -> Iterable[str]:
    """Return the names of the variables."""
    return VARIABLES
