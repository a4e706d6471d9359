# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Select the hosts of each play of an upgrade of Slurm; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade import upgrade_outcome


def _run(hostvars: Any, hosts: Iterable[str]) -> upgrade_outcome.Run:
    # As they are: a text of a machine is not a template.
    raw = getattr(hostvars, "raw_get", hostvars.__getitem__)
    return upgrade_outcome.Run(upgrade_outcome.plan_of(raw, [name for name in hosts if name in hostvars]), raw)


def upgrade_hosts(hostvars: Mapping[str, Any], hosts: Iterable[str], key: str) -> list[str]:
    """Return the hosts of a play, or a pattern that fits no host."""
    return _run(hostvars, hosts).hosts(key) or upgrade_outcome.NOBODY


def upgrade_serial(hostvars: Mapping[str, Any], hosts: Iterable[str]) -> list[str]:
    """Return the sizes of the batches of nodes."""
    return list(_run(hostvars, hosts).plan.get("serial") or ["100%"])


def upgrade_stopped(hostvars: Mapping[str, Any], hosts: Iterable[str]) -> str:
    """Return why no further batch begins, or ""."""
    return _run(hostvars, hosts).stopped()


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {function.__name__: function for function in (upgrade_hosts, upgrade_serial, upgrade_stopped)}
