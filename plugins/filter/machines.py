# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Machines of the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines import hosts_file, machine_facts, nodes_facts


def _cluster(path: object, name: str) -> Cluster:
    if not isinstance(path, str):
        raise AnsibleFilterError(
            f"{name} takes the path of a cluster file, such as bedplate_cluster_file, not {path!r}"
        )
    try:
        return load(str(path))
    except ClusterFileError as error:
        raise AnsibleFilterError(f"{name}: {error}") from None


def node(path: object, name: object) -> dict[str, Any]:
    """Return what the cluster file says of one machine."""
    cluster = _cluster(path, "node")
    try:
        return machine_facts(cluster, cluster.machine(str(name)))
    except KeyError as error:
        raise AnsibleFilterError(f"node: {error.args[0]}") from None


def nodes(path: object) -> list[dict[str, Any]]:
    """Return what the cluster file says of every rack node."""
    return nodes_facts(_cluster(path, "nodes"))


def etc_hosts(path: object) -> str:
    """Return the text of /etc/hosts."""
    return hosts_file(_cluster(path, "etc_hosts"))


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"node": node, "nodes": nodes, "etc_hosts": etc_hosts}
