# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Select the hosts of each play of a restore of Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import restore_plan

# A pattern that fits no host.
_NOBODY = ["!all"]


def restore_hosts(hostvars: Mapping[str, Any], hosts: Iterable[str], key: str) -> list[str]:
    """Return the hosts of a play, or a pattern that fits no host."""
    # As they are: a text of a machine is not a template.
    raw = getattr(hostvars, "raw_get", hostvars.__getitem__)
    found = [raw(name).get(restore_plan.PLAN) for name in hosts if name in hostvars]
    plans = [one for one in found if isinstance(one, Mapping) and "core" in one and not one.get("failed")]
    return (restore_plan.hosts(plans[0], key, raw) if plans else []) or _NOBODY


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"restore_hosts": restore_hosts}
