# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of an upgrade: which hosts, in which order, from which release to which; and its preview."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from .upgrade_refusals import mib
from .upgrade_site import Site


def plan(site: Site, choices: Mapping[str, Any], is_preview: bool) -> dict[str, Any]:
    """Return the plan as plain data; `choices` are the variables of the upgrade.

    `core` is empty where database and controllers have the release already. A node or client without a look is in `left`.
    """
    core = site.core if site.needs_core() else []
    nodes = [host for host in site.nodes if site.is_pending(host)]
    changed = {*core, *nodes}
    others = [host for host in site.others if site.is_pending(host) or host in changed]
    pending = list(dict.fromkeys([*core, *nodes, *others]))
    return {
        "is_preview": is_preview,
        "old": site.old(),
        "new": site.new,
        "resume": bool(site.unfinished()),
        "served": site.has_served(),
        "core": core,
        "untouched": site.untouched() if core else [],
        "database": list(site.database) if core else [],
        "controllers": list(site.controllers) if core else [],
        "nodes": nodes,
        "others": others,
        "pending": pending,
        "serial": choices["serial"],
        "failures": choices["failures"],
        "seconds": choices["seconds"],
        "left": {host: why for host, why in site.lost.items() if host not in site.core},
        "packages": {host: site.looks[host]["changes"] for host in pending},
        "space": {host: _space(site.looks[host]) for host in core},
    }


def preview(found: Mapping[str, Any]) -> str:
    """Return the plan for operators."""
    if not found["pending"]:
        text = f"Slurm {found['new']} is installed on all hosts that answer. Nothing is pending."
        return "\n".join([text, *_left(found)])
    lines = [f"from Slurm {found['old']} to {found['new']}" + (", continued" if found["resume"] else "")]
    if found["core"]:
        lines.append(f"1. stop and save: database {fold(found['database'])}, controllers {fold(found['controllers'])}")
        lines += [f"   {host}: {text}" for host, text in found["space"].items()]
        lines.append("2. start slurmdbd, then slurmctld; a failure of either goes back")
    if found["nodes"]:
        batches = ", ".join(found["serial"])
        lines.append(f"3. nodes, {batches} at once, under their jobs: {fold(found['nodes'])}")
    if found["others"]:
        lines.append(f"4. login and REST hosts: {fold(found['others'])}")
    return "\n".join([*lines, *_packages(found), *_left(found)])


def _packages(found: Mapping[str, Any]) -> list[str]:
    """Return the packages that change, one line for hosts with the same."""
    alike: dict[str, list[str]] = {}
    for host, changes in found["packages"].items():
        text = ", ".join(f"{name} {old or 'new'} -> {new}" for name, (old, new) in sorted(changes.items()))
        alike.setdefault(text or "no package", []).append(host)
    return [f"packages of {fold(hosts)}: {text}" for text, hosts in alike.items()]


def _left(found: Mapping[str, Any]) -> list[str]:
    alike: dict[str, list[str]] = {}
    for host, why in found["left"].items():
        alike.setdefault(why, []).append(host)
    return [f"left: {fold(hosts)}: {why}" for why, hosts in alike.items()]


def _space(look: Mapping[str, Any]) -> str:
    needed = look["state"] + look["database"]
    return f"copies need {mib(needed)} ({mib(look['database'])} of them twice), {mib(look['free'])} free; downloads {mib(look['download'])}"
