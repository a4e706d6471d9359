# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the roles of a node's kernel and hardware bring to it; each filter is documented in the .yml file with its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import brought
from ansible_collections.bedplate.cluster.plugins.plugin_utils.rdma import node as of_rdma
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning import node as of_tuning


def node_tuning(path: object, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role node_tuning brings to a host."""
    return brought(path, "node_tuning", lambda cluster: of_tuning.deployment(cluster, host, choices))


def rdma(path: object, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role rdma brings to a host."""
    return brought(path, "rdma", lambda cluster: of_rdma.deployment(cluster, host, choices))


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"node_tuning": node_tuning, "rdma": rdma}
