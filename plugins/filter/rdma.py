# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role rdma brings to a node; documented in the .yml file beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.rdma.node import deployment


def rdma(path: object, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the role brings to a host."""
    cluster = cluster_of(path, "rdma")
    try:
        return deployment(cluster, host, choices)
    except (KeyError, ValueError) as error:
        raise AnsibleFilterError(f"rdma: {error.args[0]}") from None


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"rdma": rdma}
