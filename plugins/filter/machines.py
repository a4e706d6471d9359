# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Machines of the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.machine_facts import (
    hosts_file,
    machine_facts,
    nodes_facts,
)


def node(path: object, name: object) -> dict[str, Any]:
    """Return the facts of one machine in the cluster file."""
    cluster = cluster_of(path, "node")
    try:
        return machine_facts(cluster, cluster.machine(str(name)))
    except KeyError as error:
        raise AnsibleFilterError(f"node: {error.args[0]}") from None


def nodes(path: object) -> list[dict[str, Any]]:
    """Return the facts of every rack node in the cluster file."""
    return nodes_facts(cluster_of(path, "nodes"))


def etc_hosts(path: object) -> str:
    """Return the text of /etc/hosts."""
    return hosts_file(cluster_of(path, "etc_hosts"))


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {"node": node, "nodes": nodes, "etc_hosts": etc_hosts}
