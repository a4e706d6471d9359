# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect packages, pins and data of a host for the steps `look` and `fetch` of bedplate.cluster.slurm_upgrade."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import conf_reader

from ..cluster import Cluster
from ..roles.host_decision import HostDecision
from ..slurm import render
from ..slurm.backup_part import database_name, state_path
from ..slurm.slurm_packages import PREFERENCES

_PARTS = ("database", "controller_packages", "compute", "login", "client", "rest")
_CLIENT = (
    *("ClusterName", "SlurmctldHost", "SlurmUser", "AuthType", "AuthInfo", "CommunicationParameters"),
    *("AccountingStorageType", "AccountingStorageHost", "AccountingStoragePort", "AccountingStoragePass"),
)


def requested(decided: HostDecision, cluster: Cluster, host: str) -> dict[str, Any]:
    """Return the packages, pins, daemons and data of a host. ValueError: packages of dnf, or a database on another host."""
    if cluster.slurm.packages.manager != "apt":
        raise ValueError(
            f"{cluster.path}: slurm.packages: packages of {cluster.slurm.packages.manager}; allowed: apt. Upgrade by hand, as "
            'docs/upgrade-slurm.md says under "By hand"'
        )
    parts = [found for name in _PARTS if name in decided.decision.parts and (found := decided.arguments(name))]
    is_database = host in cluster.services.database
    is_controller = host in cluster.services.controllers
    daemons = [*["slurmdbd.service"][: int(is_database)], *["slurmctld.service"][: int(is_controller)]]
    return {
        "packages": list(dict.fromkeys(name for part in parts for name in part["packages"])),
        "release": list(cluster.slurm.packages.release),
        "version": f"{cluster.slurm.version}.*",
        "preferences": [PREFERENCES.rpartition("/")[2], _pins(parts)],
        "daemons": daemons,
        "database": database_name(cluster) if is_database else "",
        "state": state_path(cluster) if host in cluster.services.controllers[:1] else "",
        "is_core": is_database or is_controller,
    }


def slurmdbd_client_conf(cluster: Cluster) -> str:
    """Return a slurm.conf with which sacctmgr of any release finds slurmdbd: a database host lacks its own."""
    conf = conf_reader.parse(render.slurm_files(cluster)["slurm.conf"])
    found = ((name, conf.option(name)) for name in _CLIENT)
    return "".join(f"{name}={value}\n" for name, value in found if value is not None)


def logs(cluster: Cluster) -> dict[str, str]:
    """Return unit -> its log file, "" for the journal."""
    files = {
        "slurmdbd.service": conf_reader.parse(render.slurmdbd_conf(cluster)).option("LogFile"),
        "slurmctld.service": conf_reader.parse(render.slurm_files(cluster)["slurm.conf"]).option("SlurmctldLogFile"),
    }
    return {unit: path or "" for unit, path in files.items()}


def _pins(parts: list[dict[str, Any]]) -> str:
    texts = [one["content"] for part in parts for one in part.get("sources", ()) if one["path"] == PREFERENCES]
    return str(next(iter(texts), ""))
