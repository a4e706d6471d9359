# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Select the machines of each play of a turn; documented in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys import turn_plan, turn_proof


def turn_hosts(hostvars: Mapping[str, Any], machines: Iterable[str], what: str, secret: str = "munge_key") -> list[str]:
    """Return the machines of a list of the plan for a secret; without a plan, a pattern that fits no host."""
    raw = getattr(hostvars, "raw_get", hostvars.__getitem__)
    plan = turn_plan.plan_of(raw, [name for name in machines if name in hostvars])
    return turn_plan.hosts_of(plan, what, secret)


def turn_credentials(hostvars: Mapping[str, Any], machines: Iterable[str], register: str) -> dict[str, str]:
    """Return the munge credential that each machine made in a task of this run, by the variable that the task registered."""
    raw = getattr(hostvars, "raw_get", hostvars.__getitem__)
    return turn_proof.credentials_of(raw, machines, register)


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"turn_hosts": turn_hosts, "turn_credentials": turn_credentials}
