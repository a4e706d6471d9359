# SPDX-License-Identifier: GPL-3.0-or-later
"""What verify expects of Slurm on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.filter.slurm import slurm_expected, slurm_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render, runtime

from .role_variables import RoleVariables

ROLE = "slurm"
# Seconds that nodes may take to register after a restart.
WAIT = 30


def expected(
    cluster: Cluster, path: str, host: str, variables: RoleVariables, kept: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], list[tuple[str, Mapping[str, Any]]]]:
    """Return parts and deployments of Slurm on a machine; `kept` is the answer of bedplate.cluster.slurm_in_use on a controller."""
    names = render.parts(cluster, host)
    if not names:
        return {}, []
    topology = variables.value(ROLE, "__slurm_topology")
    files = slurm_files(path, kept or None, topology)
    more = {"__slurm_files": files} if "controller" in names else {}
    deployed: list[tuple[str, Mapping[str, Any]]] = [
        (ROLE, {"manifest": f"slurm_{name}", **variables.value(ROLE, f"__slurm_parts['{name}']", more)})
        for name in names
    ]
    return _parts(cluster, path, names, files, topology, kept), deployed


def _parts(
    cluster: Cluster, path: str, names: list[str], files: Mapping[str, str], topology: str, kept: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return what is asked of Slurm itself: on a controller all of it, elsewhere the configuration that the machine was given."""
    if "controller" in names:
        return {
            "slurm_files": {"directory": "/etc/slurm", "files": dict(files), "records": True},
            "slurm": {
                **slurm_expected(path, topology, kept),
                "options": runtime.options(files["slurm.conf"]),
                "partition_options": runtime.partitions(cluster),
                "features": runtime.features(cluster),
                "wait": WAIT,
            },
        }
    if {"compute", "login"} & set(names):
        # What jobs keep stands in records, which only the controllers know. A login node is given what commands read.
        fixed = {name: files[name] for name in ("slurm.conf", *(["cgroup.conf"] if "compute" in names else []))}
        return {"slurm_files": {"directory": "", "files": fixed, "records": False}}
    return {}
