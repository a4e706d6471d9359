# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of playbooks/roll.yml: their defaults, and mistakes in their values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..common import run_variables
from ..common.run_variables import RUN_NAME, SWITCH, RunVariable, as_whole, matches, number, seconds

PREFIX = "roll_"
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?|now(\+\d+(minutes|hours|days))?"
VARIABLES: dict[str, RunVariable] = {
    "roll_percent": RunVariable(5.0, "a percentage above 0, at most 100", number(0.001, 100, whole=False), float),
    "roll_failures": RunVariable(0, "a number of nodes from 0", number(0, 1_000_000), as_whole),
    "roll_deadline": seconds(14_400),
    "roll_patience": seconds(120),
    "roll_reboot_deadline": seconds(2400),
    "roll_settle": seconds(90),
    "roll_waiting_fails": SWITCH,
    "roll_reserved": SWITCH,
    "roll_packages": SWITCH,
    "roll_when": RunVariable("now", "now, reservation", lambda value: value in ("now", "reservation")),
    "roll_start": RunVariable("", "a time such as 2026-11-27T22:00:00, or now+2hours", matches(_TIME)),
    "roll_hours": RunVariable(4.0, "hours from 0.1 to 720", number(0.1, 720, whole=False), float),
    "roll_ended": RUN_NAME,
    "roll_plan_file": RunVariable("", "a path", lambda value: isinstance(value, str) and bool(value)),
    "roll_plan_digest": RunVariable(
        "", "64 digits and letters a-f, as the preview prints them", matches("[0-9a-f]{64}")
    ),
}


def mistakes(variables: Mapping[str, object]) -> list[str]:
    """Return each misspelt variable of the roll, each value that is not allowed, and what they miss in each other."""
    found = run_variables.mistakes(variables, VARIABLES, PREFIX, "roll.yml")
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


def choices(variables: Mapping[str, object]) -> dict[str, Any]:
    """Return the value of each variable, without `roll_`. Raises ValueError for values that `mistakes` names.

    >>> choices({"roll_percent": "10"})["percent"]
    10.0
    """
    return run_variables.choices(variables, VARIABLES, PREFIX)
