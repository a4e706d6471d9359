# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role container_runtime brings to a machine; documented in the .yml file beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.container_part import deployment
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import role_result


def container_runtime(path: object, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role brings to a host."""
    return role_result(path, "container_runtime", lambda cluster: deployment(software_of(cluster, host), choices))


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"container_runtime": container_runtime}
