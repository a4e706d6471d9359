# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse an option that names a script while a machine cannot run the script: a node would be drained by its first job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from ..cluster import Cluster
from ..cluster.schema import reader
from . import scripts
from .tables.script_table import by_option

# Nodes that the cluster file plans without jobs.
_IDLE = ("down", "future")


def hosts(cluster: Cluster) -> list[str]:
    """Return the machines whose answers count: nodes and login hosts with scripts, and the controllers."""
    return list(dict.fromkeys([*scripts.hosts(cluster), *cluster.services.controllers]))


def refuse(cluster: Cluster, answers: Mapping[str, Any], in_force: Mapping[str, str] | None) -> str:
    """Return why the options must not be deployed, a line each; empty if every host has its scripts.

    `answers`: host -> result of slurm_script_check, for the machines of `hosts`; one that is missing or skipped proves nothing.
    `in_force`: option -> value that slurm.conf has now; a value that stays needs no proof of hosts that were not asked. With None, no value
    needs one.
    """
    answered = {host: answers[host] for host in hosts(cluster) if _is_answer(answers.get(host))}
    rows = _missing(cluster, {host: one["findings"] for host, one in answered.items()})
    if in_force is None:
        return finding.table(rows)
    news = {name: value for name, value in scripts.node_options(cluster).items() if in_force.get(name) != value}
    planned = {node.name for node in cluster.nodes if node.state in _IDLE}
    silent = [host for host in scripts.hosts(cluster) if host not in answered and host not in planned]
    if news and silent:
        rows += [_unproven(cluster, name, value, silent) for name, value in news.items()]
    return finding.table(rows)


def _is_answer(answer: Any) -> bool:
    return isinstance(answer, Mapping) and "findings" in answer and not answer.get("failed")


def _missing(cluster: Cluster, findings: Mapping[str, list[dict[str, Any]]]) -> list[Finding]:
    """Return one finding for all hosts with the same problem of a script."""
    by_script: dict[tuple[str, str, str, str], list[str]] = {}
    for host, rows in findings.items():
        for row in rows:
            by_script.setdefault((row["where"], row["expected"], row["found"], row.get("remedy", "")), []).append(host)
    return [
        Finding(
            kind="slurm-script",
            where=f"{place(cluster, where)}: {where}",
            expected=expected,
            found=f"{found} on {fold(hosts)}",
            remedy=remedy,
        )
        for (where, expected, found, remedy), hosts in by_script.items()
    ]


def _unproven(cluster: Cluster, option: str, value: str, silent: list[str]) -> Finding:
    return Finding(
        kind="slurm-script",
        where=f"{place(cluster, option)}: {option}",
        expected=f"{value} proved on every host that runs it",
        found=f"{fold(silent)} not reached",
        remedy="Run without --limit and with all of them up. Nodes that stay off for long: state: down in racks.<name>.exceptions",
    )


def place(cluster: Cluster, option: str) -> str:
    """Return file and line of the cluster file where an option, or the scripts behind it, are stated."""
    lines = reader.read(cluster.path)[1]
    row = by_option().get(option.lower())
    for path, line in lines.items():
        if path[:2] == ("slurm", "options") and len(path) == 3 and str(path[2]).lower() == option.lower():
            return f"{cluster.path}:{line}"
        if row and path == ("slurm", "scripts", row.kind):
            return f"{cluster.path}:{line}"
    # Only `health` sets the option then.
    section = lines.get(("health",))
    return f"{cluster.path}:{section}" if row and section else cluster.path
