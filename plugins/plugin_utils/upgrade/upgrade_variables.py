# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of playbooks/upgrade_slurm.yml: their defaults, and mistakes in their values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..common import run_variables
from ..common.run_variables import RUN_NAME, SWITCH, RunVariable, as_whole, number, seconds

PREFIX = "upgrade_"
KIND = "upgrade"
"""Kind of the record of a run."""
_BATCH = re.compile(r"[1-9][0-9]*%?\Z")


def _is_serial(value: object) -> bool:
    batches = value if isinstance(value, list) else [value]
    return bool(batches) and all(_BATCH.match(str(one)) for one in batches)


def _as_serial(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


VARIABLES: dict[str, RunVariable] = {
    "upgrade_serial": RunVariable(
        ["10%"], "a number of nodes from 1, a percentage such as 10%, or a list of them", _is_serial, _as_serial
    ),
    "upgrade_failures": RunVariable(0, "a number of nodes from 0", number(0, 1_000_000), as_whole),
    "upgrade_seconds": seconds(7200),
    "upgrade_without_return": SWITCH,
    "upgrade_ended": RUN_NAME,
}


def mistakes(variables: Mapping[str, object]) -> list[str]:
    """Return each misspelt variable of the upgrade, and each value that is not allowed."""
    return run_variables.mistakes(variables, VARIABLES, PREFIX, "upgrade_slurm.yml")


def choices(variables: Mapping[str, object]) -> dict[str, Any]:
    """Return the value of each variable, without `upgrade_`. Raises ValueError for values that `mistakes` names.

    >>> choices({"upgrade_serial": 4})["serial"]
    ['4']
    """
    return run_variables.choices(variables, VARIABLES, PREFIX)


def service_mistakes(controllers: Collection[str], database: Collection[str]) -> list[str]:
    """Return the mistakes of an upgrade without machines for it."""
    found = []
    if not controllers:
        found.append(
            "the group slurm_controllers has no machine, and playbooks/upgrade_slurm.yml begins with slurmctld"
        )
    if not database:
        found.append(
            "the group slurm_database has no machine: playbooks/upgrade_slurm.yml dumps the accounting database before slurmdbd of the "
            "new release converts it, and restores it after a failure. A database that bedplate does not manage is upgraded by hand, "
            'as docs/upgrade-slurm.md says under "By hand"'
        )
    return found
