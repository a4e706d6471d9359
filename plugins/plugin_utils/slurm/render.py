# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's files, the options of its daemons and the state to expect, from the cluster file alone."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.cluster_identity import (
    DEFAULT_STATE,
    IDENTITY,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.removed_records import gres_types

from ..cluster import Cluster, Node, mig_split
from . import cluster_topology, health_additions, record_lines, scripts
from .tables.conf_text import HEADER, defaults, file_of, line_of, merge, text_of
from .tables.option_effects import ending_jobs
from .tables.options import canonical, restart_needed

JWT = {"AuthAltTypes": "auth/jwt", "AuthAltParameters": "jwt_key=/etc/slurm/jwt_hs256.key"}
SLURMCTLD_PORT = "6817"
# A line of the files that daemons restart for: other words in it would restart every daemon of Slurm in the next update.
_APPLIED_AT_START = " ".join(("# What only a start", "brings into force:", ""))


def slurm_options(cluster: Cluster, slurm_extra: Sequence[str] = (), topology_conf: str = "") -> dict[str, object]:
    """Return the global options of slurm.conf: what the cluster file implies, bedplate's defaults, the user's on top.

    `slurm_extra` are lines kept for jobs; slurmctld refuses a node line with a Gres that GresTypes has not. `topology_conf` is the
    text of one that replaces the plan's.
    """
    implied: dict[str, object] = {"ClusterName": cluster.name, **JWT}
    kept = _kept_gres(slurm_extra)
    if "gpu" in kept or any(profile.gpus for profile in cluster.profiles.values()):
        implied["GresTypes"] = "gpu"
    # Without a database slurmctld ends at its start: "slurmdbd is required to run with TRES gres/gpu".
    if "GresTypes" in implied and cluster.has_slurmdbd:
        # Instances have limits and weights of their own; whole GPUs are counted as before.
        split = [kind for one in cluster.profiles.values() if one.gpus for kind in mig_split.types(one.gpus)]
        kinds = dict.fromkeys([*split, *_kept_instances(slurm_extra)])
        implied["AccountingStorageTRES"] = ",".join(["gres/gpu", *(f"gres/gpu:{kind}" for kind in kinds)])
    if cluster.has_slurmdbd:
        implied["AccountingStorageType"] = "accounting_storage/slurmdbd"
    if cluster.services.database:
        implied["AccountingStorageHost"] = cluster.machine(cluster.services.database[0]).address
    if cluster.has_slurmdbd and cluster.slurm.accounts:
        implied["AccountingStorageEnforce"] = "associations,limits,qos,safe"
    implied |= cluster_topology.options(cluster, topology_conf)
    options = merge({**implied, **_defaults(cluster)}, merge(cluster.slurm.options, scripts.options(cluster)))
    key = next((name for name in options if name.lower() == "grestypes"), "GresTypes")
    types = [name for name in text_of(options.get(key, "")).split(",") if name]
    missing = [name for name in kept if name not in types]
    return {**options, key: ",".join(types + missing)} if missing else options


def _kept_gres(lines: Iterable[str]) -> list[str]:
    """Return the names of the GRES that the kept NodeName lines have."""
    records = parse("\n".join(lines)).records("NodeName")
    return list(dict.fromkeys(name for pairs in records for name in gres_types(pairs.get("Gres", ""))))


def kept_names(lines: Iterable[str]) -> set[str]:
    """Return the nodes of kept NodeName lines, each with a separate line."""
    return {line.split(" ", 1)[0].partition("=")[2] for line in lines if line.startswith("NodeName=")}


def _option(cluster: Cluster, name: str, default: str) -> str:
    """Return an option of slurm.conf, written in any case."""
    options = {key.lower(): value for key, value in slurm_options(cluster).items()}
    return text_of(options.get(name.lower(), default))


def _kept_instances(lines: Iterable[str]) -> list[str]:
    """Return the types of MIG instances that the kept NodeName lines have."""
    return re.findall(r"gpu:([0-9]+g\.[^:,\s(]+):", "\n".join(line for line in lines if line.startswith("NodeName=")))


def _controller_lines(cluster: Cluster) -> list[str]:
    return [
        line_of({"SlurmctldHost": f"{name}({cluster.machine(name).address})"}) for name in cluster.services.controllers
    ]


def slurm_files(
    cluster: Cluster, slurm_extra: Sequence[str] = (), gres_extra: Sequence[str] = (), topology_conf: str = ""
) -> dict[str, str]:
    """Return the files of a controller, name -> text; `*_extra` are lines kept for jobs, instead of the cluster's for nodes that it has.

    `topology_conf` is the text of one that replaces the plan's.
    """
    kept = kept_names(slurm_extra)
    lines = [
        *_controller_lines(cluster),
        *record_lines.node_lines(cluster, kept),
        *record_lines.nodeset_lines(cluster),
        *record_lines.partition_lines(cluster, cluster_topology.of_partitions(cluster, topology_conf)),
        *slurm_extra,
    ]
    beside = scripts.beside(cluster)
    return {
        "slurm.conf": file_of(slurm_options(cluster, slurm_extra, topology_conf), lines),
        "gres.conf": file_of({}, [*record_lines.gres_lines(cluster, kept), *gres_extra]),
        "cgroup.conf": file_of(merge(defaults("cgroup"), cluster.slurm.cgroup)),
        **cluster_topology.files(cluster, topology_conf),
        **health_additions.files(cluster),
        **beside,
        # Debian's own plugstack.conf has an include with a glob, which a configless Slurm cannot serve.
        "plugstack.conf": HEADER + beside.get("plugstack.conf", ""),
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


def restart_key(cluster: Cluster, daemon: str, slurm_extra: Sequence[str] = ()) -> str:
    """Return a fingerprint of the options that a daemon only reads at its start; it is in the file of the daemon's options.

    So a change of one of these options changes that file, and its handler restarts; any other change is a reconfigure.
    `slurm_extra` are lines kept for jobs: before Slurm 23.11 a node that comes or goes is such a change.
    """
    kept = [line for line in slurm_extra if line.startswith("NodeName=")]
    named = slurm_options(cluster, slurm_extra).items()
    options = {canonical("slurm", name) or name: value for name, value in named}
    options |= {"NodeName": [], "SlurmctldHost": _controller_lines(cluster)}
    fixed = restart_needed(cluster.slurm.version, {}, options, daemon)
    if "NodeName" in fixed:
        # Rendered only where the release needs them: every node of a run has this fingerprint.
        options["NodeName"] = [*record_lines.node_lines(cluster, kept_names(kept)), *kept]
    return hashlib.sha256(json.dumps({name: options[name] for name in fixed}).encode()).hexdigest()[:12]


def _controller_port(cluster: Cluster) -> str:
    """Return the port from which nodes fetch the configuration: the first if SlurmctldPort is a range."""
    return _option(cluster, "SlurmctldPort", SLURMCTLD_PORT).partition("-")[0]


def conf_servers(cluster: Cluster) -> list[str]:
    """Return the addresses from which nodes fetch the configuration, `address:port` of each controller."""
    port = _controller_port(cluster)
    return [f"{cluster.machine(name).address}:{port}" for name in cluster.services.controllers]


def daemon_files(cluster: Cluster, slurm_extra: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment files of the daemons, daemon -> text of /etc/default/<daemon>.

    Lines kept for jobs count for slurmctld alone: a slurmd that knows a node too many does no harm.
    """
    servers = ",".join(conf_servers(cluster))
    head = HEADER + _APPLIED_AT_START
    controller = f"{head}{restart_key(cluster, 'slurmctld', slurm_extra)}\n"
    node = f"{head}{restart_key(cluster, 'slurmd')}\n"
    return {
        "slurmctld": f'{controller}SLURMCTLD_OPTIONS=""\n',
        "slurmd": f'{node}SLURMD_OPTIONS="--conf-server {servers}"\n',
        "sackd": f'{node}SACKD_OPTIONS="--conf-server {servers}"\n',
    }


def desired_state(cluster: Cluster) -> dict[str, object]:
    """Return the desired state of Slurm, to find the jobs that the change would lose."""
    return {
        "nodes": fold(node.name for node in cluster.nodes),
        "partitions": list(cluster.partitions),
        "cluster": _option(cluster, "ClusterName", cluster.name),
        "state_save_location": _option(cluster, "StateSaveLocation", DEFAULT_STATE),
        "slurmd_spool_dir": _option(cluster, "SlurmdSpoolDir", "/var/spool/slurmd"),
        "controllers": cluster.services.controllers,
        "node_lines": record_lines.node_lines(cluster),
        "gres_lines": record_lines.gres_lines(cluster),
        "guarded": guarded(cluster),
    }


def guarded(cluster: Cluster) -> list[dict[str, object]]:
    """Return the desired values of the options whose change ends running jobs; "" is Slurm's own default.

    A number that does no harm is left out. The options that cluster_identity.py compares have rules of their own.
    """
    wanted = {name.lower(): text_of(value) for name, value in _stated(cluster).items()}
    found: list[dict[str, object]] = []
    for row in ending_jobs("slurm"):
        value = wanted.get(row.option.lower(), "")
        harmless = row.below and not (value.isdigit() and 0 < int(value) < row.below)
        if row.option not in IDENTITY and not harmless:
            place = f"{'health.private_tmp' if row.option in health_additions.PRIVATE_TMP else 'slurm.options'} of {cluster.path}"
            found.append({"option": row.option, "value": value, "place": place, "lowered": row.lowered})
    return found


def _stated(cluster: Cluster) -> dict[str, object]:
    """Return the options of slurm.conf that the cluster file or bedplate sets, without the options of nodes and services."""
    return merge(_defaults(cluster), cluster.slurm.options)


def _defaults(cluster: Cluster) -> dict[str, str]:
    """Return bedplate's defaults of slurm.conf, with the directories of the packages."""
    paths = cluster.slurm.packages.paths
    own = {"StateSaveLocation": paths["state"], "SlurmdSpoolDir": paths["spool"]}
    return {**defaults("slurm"), **own, **health_additions.options(cluster)}


def node_hardware(cluster: Cluster, name: str) -> dict[str, object]:
    """Return the arguments of the module slurm_node_hardware for a node: what its line will promise."""
    profile = cluster.node(name).profile
    parameters = {key.lower(): text_of(value) for key, value in _stated(cluster).items()}
    overrides = "config_overrides" in parameters.get("slurmdparameters", "").lower().split(",")
    gpus = profile.gpus
    shape = {
        "sockets": profile.sockets,
        "cores_per_socket": profile.cores_per_socket,
        "threads_per_core": profile.threads_per_core,
    }
    return {
        "profile": profile.name,
        "cluster_file": cluster.path,
        "conf_servers": conf_servers(cluster),
        "devices": list(gpus.devices) if gpus and gpus.detect == "explicit" else [],
        "gpus": gpus.count if gpus and gpus.detect in ("nvidia", "nvml") else 0,
        **({} if overrides else {**shape, "memory": record_lines.real_memory(profile)}),
    }


def accounts(cluster: Cluster) -> dict[str, object]:
    """Return the desired accounting objects."""
    return {"cluster": cluster.name, "qos": cluster.slurm.qos, "accounts": cluster.slurm.accounts}


def expected(cluster: Cluster, topology_conf: str = "", kept: Iterable[Mapping[str, object]] = ()) -> dict[str, object]:
    """Return the expected state of slurmctld: groups of like nodes, partitions and switches (from `topology_conf`, if given).

    `kept` are groups of nodes that an earlier run left with other hardware, for their jobs.
    """
    several = cluster_topology.reported(cluster, topology_conf)
    return {
        "version": cluster.slurm.version,
        "node_count": len(cluster.nodes),
        "nodes": record_lines.expected_nodes(cluster, kept),
        "partitions": record_lines.expected_partitions(cluster),
        "topology": cluster_topology.switches(cluster, topology_conf),
        **({"topologies": several} if several else {}),
    }


def parts(cluster: Cluster, name: str) -> list[str]:
    """Return the parts of Slurm that the cluster file gives to a machine, in the order to deploy them."""
    services = cluster.services
    found = [
        part for part, hosts in (("database", services.database), ("controller", services.controllers)) if name in hosts
    ]
    if isinstance(cluster.machines.get(name), Node):
        found.append("compute")
    if name in cluster.client_hosts:
        found.append("login")
    return found + (["rest"] if name in services.rest else [])
