# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a restore as plain data without secrets, its preview, and its report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import DATABASE, FILES, STATE

from .restore_jobs import JobFates, text_of
from .restore_site import RestoreSite

PLAN = "__restore"
"""Variable of the playbook with the plan."""
PLAYS = {
    "core": "__restore_ready",
    "database": "__restore_database",
    "database_all": "__restore_dbd",
    "primary": "__restore_jobs",
    "deployed": "",
}
"""Plays in their order, each with the result of its last task: hosts that are installed, where the database is restored, where slurmdbd
starts, where the state is restored, and all at the end."""
Raw = Callable[[str], Mapping[str, Any]]


def plan(site: RestoreSite, found: JobFates, over: bool, next_job: int, missing: Collection[str]) -> dict[str, Any]:
    """Return which hosts get which members; `missing`: secrets that the control node gets from the backup.

    `core` is empty where an earlier call has restored this backup. `stops`: hosts whose daemons stop; not where this backup's state is
    restored, for slurmctld may have served since. `installs`: hosts that get packages and files without a look at running jobs; not where
    Slurm's files are those that were in force, or newer ones that the role has checked.
    """
    state, database = site.backup.host_of(STATE), site.backup.host_of(DATABASE)
    keeps = site.keeps_database(over)
    manifests = site.backup.manifests
    core = [] if site.is_finished() else site.core
    return {
        "backup": site.backup.digest,
        "at": site.jobs().at,
        "core": core,
        "stops": [host for host in core if not {"state", "finished"} & set(site.steps(host))],
        "installs": [host for host in core if not {"configuration", "finished"} & set(site.steps(host))],
        "primary": site.primary,
        "controllers": list(site.controllers) if core else [],
        "database": [] if keeps or not core else list(site.database),
        "database_all": list(site.database) if core else [],
        "keeps_database": keeps,
        "state_host": state,
        "database_host": database,
        "members": {
            STATE: _member(manifests[state].members[STATE]) if state else {},
            FILES: _member(manifests[state].members[FILES]) if state else {},
            DATABASE: {**_member(manifests[database].members[DATABASE]), "rows": manifests[database].rows()}
            if database
            else {},
        },
        "next_job": next_job,
        "secrets": sorted(missing),
        "kept": list(found.kept),
        "ended": {str(job): why for job, why in found.ended.items()},
        "missing": {str(job): why for job, why in found.missing.items()},
    }


def preview(site: RestoreSite, planned: dict[str, Any], found: JobFates) -> str:
    """Return what a run does, host by host, and what becomes of jobs."""
    if not planned["core"]:
        return f"The backup of {text_of(planned['at'])} was restored before, and slurmctld runs. Nothing is left to do."
    manifests = site.backup.manifests
    members = manifests[planned["state_host"]].members
    lines = [
        f"backup of {text_of(planned['at'])}, Slurm {manifests[planned['state_host']].slurm}, cluster {site.cluster}"
    ]
    if planned["secrets"]:
        lines.append(f"control node: secrets that it lacks: {', '.join(planned['secrets'])}")
    for host in site.database:
        rows = planned["members"][DATABASE].get("rows", {})
        text = f"{len(rows)} tables with {sum(rows.values())} rows are restored"
        if planned["keeps_database"]:
            text = f"stays: it has {site.database_look()['jobs']} jobs. -e restore_over=true replaces it by {text}"
        lines.append(f"{host}: database: {text}")
    lines.append(
        f"{site.primary}: state: {members[STATE]['files']} files; the next job gets an id from {planned['next_job']}"
    )
    if found.kept:
        lines.append(f"jobs that run on: {fold_ids(found.kept)}")
    return "\n".join([*lines, *found.lines()])


def hosts(planned: Mapping[str, Any], key: str, raw: Raw) -> list[str]:
    """Return the hosts of a play of a restore: a key of PLAYS; [] in a preview, and until all plays before it have succeeded.

    `raw` returns the variables of a host. Ansible begins the next play although a host did not answer: `any_errors_fatal` counts such a
    host twice, and then not all hosts of its play have failed.
    """
    if not planned or planned["is_preview"] or not planned["core"]:
        return []
    for before, result in PLAYS.items():
        if before == key:
            return _listed(planned, key)
        if not all(_is_done(raw(host).get(result)) for host in _listed(planned, before)):
            return []
    raise KeyError(key)


def _listed(planned: Mapping[str, Any], key: str) -> list[str]:
    if key == "primary":
        return [planned["primary"]]
    return list(planned["core" if key == "deployed" else key])


def _is_done(result: object) -> bool:
    return isinstance(result, Mapping) and not any(result.get(key) for key in ("failed", "unreachable", "skipped"))


def report(planned: dict[str, Any], running: Collection[int], restored: dict[str, str]) -> tuple[str, list[int]]:
    """Return the text of the end, and jobs that the restored slurmctld does not have as running though they ran on.

    `running`: slurmctld's running jobs. `restored`: host -> what was restored there.
    """
    unknown = [job for job in planned["kept"] if job not in running]
    lines = [f"{host}: {text}" for host, text in sorted(restored.items())]
    lines.append(f"{len(planned['kept']) - len(unknown)} of {len(planned['kept'])} jobs of the backup run on")
    lines += [f"job {job}: {why}" for group in ("ended", "missing") for job, why in planned[group].items()]
    return "\n".join(lines), unknown


def fold_ids(jobs: Collection[int]) -> str:
    """Return ids as ranges.

    >>> fold_ids([3, 4, 5, 9])
    '[3-5,9]'
    """
    return fold(str(job) for job in jobs)


def _member(facts: Any) -> dict[str, Any]:
    return {"sha256": facts["sha256"], "bytes": facts["bytes"]}
