# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's files, the options of its daemons and the state to expect, from the cluster file alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.options import canonical, restart_needed
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from . import nodes, topology
from .conf import HEADER, defaults, file_of, line_of, merge

JWT = {"AuthAltTypes": "auth/jwt", "AuthAltParameters": "jwt_key=/etc/slurm/jwt_hs256.key"}
SLURMCTLD_PORT = "6817"


def slurm_options(cluster: Cluster) -> dict[str, object]:
    """Return the global options of slurm.conf: what the cluster file implies, bedplate's defaults, the user's on top."""
    implied: dict[str, object] = {"ClusterName": cluster.name, **JWT}
    if any(profile.gpus for profile in cluster.profiles.values()):
        implied["GresTypes"] = "gpu"
        implied["AccountingStorageTRES"] = "gres/gpu"
    if cluster.services.database:
        implied["AccountingStorageType"] = "accounting_storage/slurmdbd"
        implied["AccountingStorageHost"] = cluster.machine(cluster.services.database[0]).address
    if cluster.services.database and cluster.slurm.accounts:
        implied["AccountingStorageEnforce"] = "associations,limits,qos,safe"
    if topology.has_topology(cluster):
        implied["TopologyPlugin"] = "topology/tree"
    return merge({**implied, **defaults("slurm")}, cluster.slurm.options)


def _controller_lines(cluster: Cluster) -> list[str]:
    return [
        line_of({"SlurmctldHost": f"{name}({cluster.machine(name).address})"}) for name in cluster.services.controllers
    ]


def slurm_files(cluster: Cluster, slurm_extra: Sequence[str] = (), gres_extra: Sequence[str] = ()) -> dict[str, str]:
    """Return the files of a controller, name -> text; `*_extra` are lines kept for jobs on things that have left."""
    lines = [
        *_controller_lines(cluster),
        *nodes.node_lines(cluster),
        *nodes.nodeset_lines(cluster),
        *nodes.partition_lines(cluster),
        *slurm_extra,
    ]
    return {
        "slurm.conf": file_of(slurm_options(cluster), lines),
        "gres.conf": file_of({}, [*nodes.gres_lines(cluster), *gres_extra]),
        "cgroup.conf": file_of(merge(defaults("cgroup"), cluster.slurm.cgroup)),
        "topology.conf": file_of({}, topology.lines(cluster)),
        # Debian's own plugstack.conf has an include with a glob, which a configless Slurm cannot serve.
        "plugstack.conf": HEADER,
    }


def slurmdbd_conf(cluster: Cluster) -> str:
    """Return slurmdbd.conf: the database is on the same host and known by the caller's user id, so there is no password."""
    host = cluster.services.database[0]
    implied: dict[str, object] = {
        "DbdHost": host,
        "DbdAddr": cluster.machine(host).address,
        "StorageHost": "localhost",
        "StorageUser": "slurm",
        **JWT,
    }
    return file_of(merge({**implied, **defaults("slurmdbd")}, cluster.slurm.slurmdbd))


def restart_key(cluster: Cluster, daemon: str) -> str:
    """Return a fingerprint of what a daemon only takes at its start; it stands in the file of the daemon's options.

    So a change of one of these options changes that file, and its handler restarts; any other change is a reconfigure.
    """
    lines = {"NodeName": nodes.node_lines(cluster), "SlurmctldHost": _controller_lines(cluster)}
    options = {canonical("slurm", name) or name: value for name, value in slurm_options(cluster).items()} | lines
    fixed = restart_needed(cluster.slurm.version, {}, options, daemon)
    return hashlib.sha256(json.dumps({name: options[name] for name in fixed}).encode()).hexdigest()[:12]


def _controller_port(cluster: Cluster) -> str:
    """Return the port at which nodes ask for the configuration: the first where SlurmctldPort is a range."""
    options = {name.lower(): value for name, value in slurm_options(cluster).items()}
    return str(options.get("slurmctldport", SLURMCTLD_PORT)).partition("-")[0]


def daemon_files(cluster: Cluster) -> dict[str, str]:
    """Return the environment files of the daemons, daemon -> text of /etc/default/<daemon>."""
    port = _controller_port(cluster)
    servers = ",".join(f"{cluster.machine(name).address}:{port}" for name in cluster.services.controllers)
    head = HEADER + "# What only a start brings into force: "
    controller, node = (f"{head}{restart_key(cluster, daemon)}\n" for daemon in ("slurmctld", "slurmd"))
    return {
        "slurmctld": f'{controller}SLURMCTLD_OPTIONS=""\n',
        "slurmd": f'{node}SLURMD_OPTIONS="--conf-server {servers}"\n',
        "sackd": f'{node}SACKD_OPTIONS="--conf-server {servers}"\n',
    }


def wanted(cluster: Cluster) -> dict[str, object]:
    """Return what the cluster file wants Slurm to have, for the question which leaving things still have jobs."""
    return {"nodes": fold(node.name for node in cluster.nodes), "partitions": list(cluster.partitions)}


def accounts(cluster: Cluster) -> dict[str, object]:
    """Return the wanted accounting objects."""
    return {"cluster": cluster.name, "qos": cluster.slurm.qos, "accounts": cluster.slurm.accounts}


def expected(cluster: Cluster) -> dict[str, object]:
    """Return what slurmctld should report: groups of like nodes, partitions and switches."""
    return {
        "version": cluster.slurm.version,
        "node_count": len(cluster.nodes),
        "nodes": nodes.expected_nodes(cluster),
        "partitions": nodes.expected_partitions(cluster),
        "topology": topology.switches(cluster),
    }


def parts(cluster: Cluster, name: str) -> list[str]:
    """Return the parts of Slurm that the cluster file gives to a machine, in the order to deploy them."""
    services = cluster.services
    found = [
        part for part, hosts in (("database", services.database), ("controller", services.controllers)) if name in hosts
    ]
    if any(node.name == name for node in cluster.nodes):
        found.append("compute")
    if name in services.login and name not in services.controllers:
        found.append("login")
    return found + (["rest"] if name in services.rest else [])
