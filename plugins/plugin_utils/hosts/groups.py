# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's groups of a cluster."""

from __future__ import annotations

from ..cluster import Cluster
from ..cluster.name_clashes import group_name
from ..slurm import scripts

SERVICES = {
    "slurm_controllers": "controllers",
    "slurm_database": "database",
    "slurm_login": "login",
    "slurm_rest": "rest",
    "subnet_managers": "subnet_managers",
}


def groups_of(cluster: Cluster) -> dict[str, list[str]]:
    """Return every group with the names of its hosts, in the order of the file."""
    # Asked for here, before Ansible forks: a fork that asks for it first pays for all nodes.
    racks = {name: [node.name for node in cluster.nodes_by_rack.get(name, ())] for name in cluster.racks}
    # As are the views of several fabrics.
    _views = cluster.views
    models: dict[str, list[str]] = {}
    for node in cluster.nodes:
        if node.profile.gpus:
            models.setdefault(node.profile.gpus.model, []).append(node.name)
    return {
        "bedplate": list(cluster.machines),
        "compute_nodes": [node.name for node in cluster.nodes],
        "gpu_nodes": [node.name for node in cluster.nodes if node.profile.gpus],
        "gpu_software": [node.name for node in cluster.nodes if node.profile.gpus and node.profile.gpu_stack],
        "rdma_nodes": [node.name for node in cluster.nodes if node.profile.nics],
        # Where scripts of slurm.conf are installed or checked before a controller names them.
        "slurm_script_hosts": scripts.hosts(cluster),
        # Nodes that judge their health.
        "health_nodes": [node.name for node in cluster.nodes] if cluster.health else [],
        # Hosts of the Prometheus that the site has.
        "monitoring_servers": list(cluster.monitoring.servers) if cluster.monitoring else [],
        # The host whose order server installs machines.
        "provision_hosts": [cluster.provision.host] if cluster.provision else [],
        **{group: list(getattr(cluster.services, service)) for group, service in SERVICES.items()},
        **{group_name("model", name): members for name, members in models.items()},
        **{group_name("rack", name): members for name, members in racks.items()},
        **{group_name("partition", part.name): list(part.nodes) for part in cluster.partitions.values()},
    }
