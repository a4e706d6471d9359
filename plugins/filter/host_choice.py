# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Choose the hosts of a play; each filter is documented in the .yml file with its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts import host_choice


def hosts_that_set(hostvars: Mapping[str, Any], hosts: Iterable[str], variable: str, default: Any = None) -> list[str]:
    """Return the hosts on which a variable has another value than `default`."""
    return host_choice.hosts_that_set(hostvars, hosts, variable, default) if hostvars else []


def reboot_needed(hostvars: Mapping[str, Any], hosts: Iterable[str], registered: str = "__reboot_asked") -> list[str]:
    """Return the hosts that need a reboot."""
    return host_choice.reboot_needed(hostvars, hosts, registered) if hostvars else []


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"hosts_that_set": hosts_that_set, "reboot_needed": reboot_needed}
