# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The order of reboots; the filter is documented in the .yml file with its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.reboot_order import BATCH, RebootError, plan


def reboot_plan(
    hosts: Iterable[str], hostvars: Mapping[str, Any], registered: str = "__reboot_asked"
) -> dict[str, Any]:
    """Return hosts in the order of their reboots, and how many are rebooted at a time."""
    variables = {str(host): hostvars[host] for host in hosts}
    answers = {host: found.get(registered) for host, found in variables.items()}
    paths = {found.get("bedplate_cluster_file") for found in variables.values()}
    sizes = {found.get("bedplate_reboot_batch", BATCH) for found in variables.values()} or {BATCH}
    try:
        nodes = cluster_of(paths.pop(), "reboot_plan").nodes if paths else ()
        plans = [plan(nodes, answers, size) for size in sizes]
    except RebootError as error:
        raise AnsibleFilterError(f"reboot_plan: {error}") from None
    return asdict(min(plans, key=lambda one: one.serial[-1]))


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"reboot_plan": reboot_plan}
