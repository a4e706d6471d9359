# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU nodes' software of the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu import driver


def gpu_driver(path: object, host: str, mirror: str = "") -> dict[str, Any]:
    """Return what the role gpu_driver brings to a host."""
    cluster = cluster_of(path, "gpu_driver")
    try:
        return driver.deployment(cluster, host, mirror)
    except (KeyError, ValueError) as error:
        raise AnsibleFilterError(f"gpu_driver: {error.args[0]}") from None


def gpu_driver_state(deployed: Mapping[str, Any], gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return units and the reason for a reboot, by what the host runs."""
    found = driver.state(deployed, gpu)
    return {**found, "files": driver.reboot_files(found["reboot"])}


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"gpu_driver": gpu_driver, "gpu_driver_state": gpu_driver_state}
