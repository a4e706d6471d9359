# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of a playbook that a person sets for one run: their defaults, which values they take, and mistakes in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean, nearest

# A name of the command line is meant for this run; one of the inventory may belong to the site.
_SLIP_OF_RUN, _SLIP_OF_INVENTORY = 0.8, 0.9
_WORDS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class RunVariable:
    """A variable: its default, which values it takes, for operators, whether a value is one of them, and its type."""

    default: object
    allowed: str
    takes: Callable[[object], bool]
    type: Callable[[Any], object] = str


def mistakes(
    variables: Mapping[str, object], known: Mapping[str, RunVariable], prefix: str, playbook: str
) -> list[str]:
    """Return each misspelt variable with the prefix, and each value that is not allowed."""
    found = []
    for name in sorted(one for one in variables if one.startswith(prefix)):
        if name not in known:
            allowed = f"allowed: {', '.join(known)}"
            hint = did_you_mean(name, known, lead="did", quoted=False, prefix=prefix, otherwise=allowed)
            found.append(f"{name} is not a variable of playbooks/{playbook}; {hint}")
        elif not known[name].takes(variables[name]):
            value = variables[name]
            shown = "empty" if value is None else repr(value)
            found.append(f"{name}: {shown}; allowed: {known[name].allowed}")
    return found


def slips(
    named: Iterable[str], inventory: Iterable[str], known: Collection[str], others: Collection[str], playbook: str
) -> list[str]:
    """Return an error for each name that is nearly a variable of a playbook: Ansible ignores it without a word.

    `named` are those of the command line, `inventory` all others; `others` are variables of other playbooks and roles.
    """
    found = dict[str, str]()
    for names, cutoff in ((set(named), _SLIP_OF_RUN), (set(inventory), _SLIP_OF_INVENTORY)):
        for name in sorted(names - {*known, *others, *found}):
            if near := nearest(name, known, cutoff=cutoff):
                found[name] = f"{name} is not a variable of playbooks/{playbook}.yml; did you mean {near}?"
    return list(found.values())


def choices(variables: Mapping[str, object], known: Mapping[str, RunVariable], prefix: str) -> dict[str, Any]:
    """Return the value of each variable, without its prefix. Raises ValueError for values that `mistakes` names."""
    return {
        name.removeprefix(prefix): one.type(variables[name]) if name in variables else one.default
        for name, one in known.items()
    }


def number(low: float, high: float, whole: bool = True) -> Callable[[object], bool]:
    """Return whether a value is a number of this range."""

    def takes(value: object) -> bool:
        try:
            found = float(str(value))
        except ValueError:
            return False
        return low <= found <= high and (not whole or found == int(found))

    return takes


def matches(pattern: str) -> Callable[[object], bool]:
    """Return whether the text of a value fits a pattern as a whole."""
    return lambda value: re.fullmatch(pattern, str(value)) is not None


def is_bool(value: object) -> bool:
    """Return whether a value is true or false; the command line has it as text."""
    return isinstance(value, bool) or str(value).lower() in _WORDS


def as_bool(value: object) -> bool:
    """Return a value of `is_bool` as bool."""
    return value if isinstance(value, bool) else _WORDS[str(value).lower()]


def as_whole(value: object) -> int:
    """Return a whole number; Ansible has the texts 1e3 and 3.0 as they are."""
    return int(float(str(value)))


SWITCH = RunVariable(False, "true or false", is_bool, as_bool)
RUN_NAME = RunVariable("", "the 8 digits and letters a-f of a run", matches("[0-9a-f]{8}"))


def seconds(default: int) -> RunVariable:
    """Return a variable of seconds, at most a week."""
    return RunVariable(default, "whole seconds, such as 3600; at most 604800", number(0, 604_800), as_whole)
