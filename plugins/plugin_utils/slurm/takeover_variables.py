# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in the variable of playbooks/takeover.yml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

PREFIX = "takeover_"
VARIABLE = "takeover_by"


def mistakes(variables: Mapping[str, object], controllers: Sequence[str], needed: bool) -> list[str]:
    """Return each misspelt variable, and with `needed`, as in playbooks/takeover.yml, each reason why it cannot work.

    `controllers` are the controllers of the cluster, the primary first.
    """
    found = [
        f"{name} is not a variable of playbooks/takeover.yml; "
        + did_you_mean(name, [VARIABLE], lead="did", quoted=False, prefix=PREFIX, otherwise=f"allowed: {VARIABLE}")
        for name in sorted(one for one in variables if one.startswith(PREFIX) and one != VARIABLE)
    ]
    return found + (_of_controllers(variables.get(VARIABLE), controllers) if needed else [])


def _of_controllers(value: object, controllers: Sequence[str]) -> list[str]:
    if len(controllers) < 2:
        names = controllers[0] if controllers else "none"
        return [
            f"playbooks/takeover.yml needs two controllers of Slurm, and the cluster has {names}. Name a standby in services.controllers, "
            "and run playbooks/scheduler.yml"
        ]
    allowed = f"allowed: {', '.join(controllers)}"
    if value is None:
        return [f"{VARIABLE} is not set; {allowed}. Add -e {VARIABLE}={controllers[0]}, or name another controller"]
    if value not in controllers:
        return [f"{VARIABLE}: {value!r} is not a controller; {allowed}"]
    return []
