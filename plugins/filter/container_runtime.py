# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role container_runtime brings to a machine; documented in the .yml file beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import brought
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu.container_runtime import deployment
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu.parts import wanted_of


def container_runtime(path: object, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role brings to a host."""
    return brought(path, "container_runtime", lambda cluster: deployment(wanted_of(cluster, host), choices))


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"container_runtime": container_runtime}
