# SPDX-License-Identifier: GPL-3.0-or-later
"""Expectations of verify for Slurm on one machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import line_of

from ..cluster import Cluster
from ..common.shared_results import once_a_run
from ..slurm import backup_part, controller_files, live_expectations, render
from ..slurm.slurm_part import CLIENT_FILES
from .host_variables import RoleVariables

ROLE = "slurm"
CONFIGURATION = "/etc/slurm"
# Seconds that nodes may take to register after a restart.
WAIT = 30
_DAEMON = "slurmctld.service"


def expected(
    cluster: Cluster, host: str, variables: RoleVariables, kept: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], list[tuple[str, Mapping[str, Any]]]]:
    """Return parts and deployments of Slurm on a machine; `kept` is the answer of bedplate.cluster.slurm_in_use on a controller."""
    names = render.parts(cluster, host)
    if not names:
        return {}, []
    topology = variables.value(ROLE, "__slurm_topology")
    is_controller = "controller" in names
    files = controller_files.files(cluster, kept or None, topology) if is_controller else _given(cluster, topology)
    decided = variables.decision(ROLE, {"in_use": kept or None, "topology": topology})
    deployed: list[tuple[str, Mapping[str, Any]]] = [
        (ROLE, decided.arguments(name) or {}) for name in ("controller_packages", *names)
    ]
    backed_up: dict[str, dict[str, Any]] = {}
    if "backup" in decided.decision.parts and (backup := decided.arguments("backup")):
        deployed.append((ROLE, backup))
        backed_up["slurm_backup"] = backup_part.expected(cluster, host, variables.value(ROLE, "slurm_backup"))
    if "login" in names and not cluster.has_sackd:
        deployed.append((ROLE, _without_configuration(decided.arguments("client") or {})))
    if stopped_primary(cluster, host, kept):
        deployed = [(role, _without_daemon(one)) for role, one in deployed]
    found = _parts(cluster, names, files, topology, kept) | _once(cluster, names) | backed_up
    return found, deployed


def stopped_primary(cluster: Cluster, host: str, kept: Mapping[str, Any]) -> Finding | None:
    """Return the finding of a primary that does not run while a standby is in charge; no run starts it, so it is a warning.

    `kept` has the controllers that slurmctld of the one in charge reports as up; it is empty if none is in charge.
    """
    controllers = list(cluster.services.controllers)
    up = [name for name in controllers if name in (kept.get("up") or ())]
    if not up or host != controllers[0] or host in up:
        return None
    found = f"it does not run; up: {', '.join(up)}"
    remedy = f"see `journalctl -u slurmctld` there; `playbooks/takeover.yml -e takeover_by={host}` starts it and hands the control back"
    return Finding("primary-down", "slurmctld of the primary controller", "in charge of Slurm", found, remedy, WARNING)


def _without_daemon(deployed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deployment whose slurmctld may be stopped."""
    units = [
        {key: value for key, value in unit.items() if key != "state"} if unit["name"] == _DAEMON else unit
        for unit in deployed.get("units", ())
    ]
    return {**deployed, "units": units}


def _without_configuration(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the deployment of a client without Slurm's own files: they may have lines for jobs, which only the controllers know."""
    own = {f"{CONFIGURATION}/{name}" for name in CLIENT_FILES}
    return {**client, "files": [entry for entry in client.get("files", ()) if entry["path"] not in own]}


def _once(cluster: Cluster, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return the checks that need one machine: MariaDB on its host, accounts on each controller, since one may be off."""
    found: dict[str, dict[str, Any]] = {}
    if "database" in names:
        # MariaDB's own name for what slurmdbd does not recover from.
        found["slurm_database"] = {"variables": {"innodb_snapshot_isolation": "OFF"}}
    if "controller" in names and cluster.has_slurmdbd:
        found["slurm_accounts"] = dict(render.accounts(cluster))
    return found


def _given(cluster: Cluster, topology: str) -> dict[str, str]:
    """Return the options of what a controller gives to nodes and login nodes; the same for all of them, so made once a run."""

    def make() -> bytes:
        files = controller_files.files(cluster, None, topology)
        options = live_expectations.options(files["slurm.conf"]).items()
        text = "".join(f"{line_of({name: value})}\n" for name, value in options)
        return json.dumps({"slurm.conf": text, "cgroup.conf": files["cgroup.conf"]}).encode()

    key = hashlib.sha256(repr((cluster.stamp, topology)).encode()).hexdigest()
    given: dict[str, str] = json.loads(once_a_run(f"verify-slurm-{key}", make))
    return given


def _parts(
    cluster: Cluster, names: list[str], files: Mapping[str, str], topology: str, kept: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the checks of Slurm itself: on a controller all of it, elsewhere the configuration of the machine."""
    if "controller" in names:
        return {
            "slurm_files": {"directory": CONFIGURATION, "files": dict(files), "records": True},
            "slurm": {
                **controller_files.expected(cluster, topology, kept),
                "options": live_expectations.options(files["slurm.conf"]),
                "partition_options": live_expectations.partitions(cluster, topology),
                "features": live_expectations.features(cluster),
                "wait": WAIT,
            },
        }
    if {"compute", "login"} & set(names):
        # What jobs keep stands in records, which only the controllers know. A login node is given what commands read.
        fixed = {name: files[name] for name in ("slurm.conf", *(["cgroup.conf"] if "compute" in names else []))}
        # Elsewhere slurmd or sackd has fetched it.
        directory = "" if "compute" in names or cluster.has_sackd else CONFIGURATION
        return {"slurm_files": {"directory": directory, "files": fixed, "records": False}}
    return {}
