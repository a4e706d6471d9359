# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPU nodes' software of the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.deploy_arguments import arguments
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts import (
    cuda_part,
    dcgm_part,
    driver_part,
    nvlink_part,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import (
    GpuSoftware,
    software_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of

_PARTS: dict[str, Callable[[GpuSoftware], dict[str, Any]]] = {
    "driver": driver_part.deployment,
    "cuda": cuda_part.deployment,
    "dcgm": dcgm_part.deployment,
}


def gpu_part(path: object, host: str, part: str) -> dict[str, Any]:
    """Return what the role of a part brings to a host; empty where nothing is wanted."""
    if part not in _PARTS:
        raise AnsibleFilterError(f"gpu_part: there is no part {part!r}. Allowed: {', '.join(_PARTS)}")
    cluster = cluster_of(path, "gpu_part")
    try:
        wanted = software_of(cluster, host)
        if wanted is None:
            return {}
        told = _PARTS[part](wanted)
        return nvlink_part.added(told, wanted.stack, cluster, host) if part == "driver" else told
    except (KeyError, ValueError) as error:
        raise AnsibleFilterError(f"gpu_part: {error.args[0]}") from None


def gpu_driver_state(deployed: Mapping[str, Any], gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return units and the reason for a reboot, by what the host runs."""
    found = driver_part.state(deployed, gpu)
    found = {**found, "units": nvlink_part.units(found["units"], deployed.get("nodes_file", ""))}
    # Where Secure Boot may keep the module out, that is asked first, by bedplate.cluster.secure_boot, which then writes the note.
    later = driver_part.firmware_decides(deployed, gpu)
    files = [] if later else driver_part.reboot_files(found["reboot"])
    brought = {
        **deployed,
        "sources": deployed["pins"],
        "files": [*deployed["files"], *files],
        "units": found["units"],
    }
    install = arguments(brought, "gpu_driver_packages", start_installed=False)
    # What most nodes are spared costs one condition.
    attention = bool(found["refusal"] or gpu.get("initramfs_before") or gpu.get("unproven"))
    return {**found, "files": files, "firmware_decides": later, "install": install, "attention": attention}


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"gpu_part": gpu_part, "gpu_driver_state": gpu_driver_state}
