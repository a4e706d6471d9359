# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the roles of a node's kernel and hardware bring to it; each filter is documented in the .yml file with its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import role_result
from ansible_collections.bedplate.cluster.plugins.plugin_utils.rdma import rdma_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning import tuning_part


def node_tuning(path: object, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role node_tuning brings to a host."""
    return role_result(path, "node_tuning", lambda cluster: tuning_part.deployment(cluster, host, choices))


def rdma(path: object, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role rdma brings to a host."""
    return role_result(path, "rdma", lambda cluster: rdma_part.deployment(cluster, host, choices))


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"node_tuning": node_tuning, "rdma": rdma}
