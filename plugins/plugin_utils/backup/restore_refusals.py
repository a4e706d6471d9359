# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons against a restore, all at once, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_header import LARGEST
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import DATABASE, SITE, STATE

from .restore_jobs import JobFates, text_of
from .restore_site import RestoreSite


def refusals(site: RestoreSite, found: JobFates, over: bool, loses_jobs: bool, next_job: int) -> list[str]:
    """Return complete texts; `over`, `loses_jobs`: restore_over and restore_loses_jobs."""
    return [
        *_of_backup(site),
        *_of_hosts(site, over),
        *_of_keys(site),
        *([] if loses_jobs else _of_jobs(site, found)),
        *_of_ids(next_job),
    ]


def _of_backup(site: RestoreSite) -> Iterator[str]:
    for host, one in site.backup.manifests.items():
        if one.cluster != site.cluster:
            yield f"the backup's part of {host} is of cluster {one.cluster}, and the cluster file has {site.cluster}"
        release = ".".join(one.slurm.split(".")[:2])
        if host != SITE and release != site.release:
            yield (
                f"the backup's part of {host} is of Slurm {one.slurm}, and the cluster file has {site.release}. Set slurm.version to "
                f"{release}, restore, and then run playbooks/upgrade_slurm.yml"
            )
    state, database = site.backup.host_of(STATE), site.backup.host_of(DATABASE)
    if not state:
        yield "the backup has no state of a slurmctld"
    if site.database and not database:
        yield f"the backup has no dump, and the cluster file has the database on {', '.join(site.database)}"
    if state and database and site.backup.manifests[database].at < site.jobs().at and state != database:
        yield (
            "the dump is older than the state: jobs of the state have rows that the dump lacks. Use a backup of "
            "playbooks/backup.yml, which makes the dump last"
        )


def _of_hosts(site: RestoreSite, over: bool) -> Iterator[str]:
    for host in site.core:
        if why := site.lost.get(host):
            yield f"{host}: {why}"
    for host in site.controllers:
        found = site.controller(host)
        # An earlier call has restored the state, and failed later.
        if over or "state" in site.steps(site.primary):
            continue
        if found.get("runs"):
            yield f"{host}: slurmctld runs, and a restore would replace its state. Add -e restore_over=true if the state may be lost"
        elif found.get("files") and host == site.primary:
            yield (
                f"{host}: StateSaveLocation has the state of a slurmctld ({found['files']} files). If it is whole, start slurmctld "
                "instead. Add -e restore_over=true if the state may be lost"
            )


def _of_keys(site: RestoreSite) -> Iterator[str]:
    digest = site.key_digest()
    if not digest:
        yield "neither the control node nor the backup has a munge key"
        return
    other = [node for node, look in site.nodes.items() if look["munge"] and look["munge"] != digest]
    if other:
        source = "the control node" if site.munge else "the backup"
        yield (
            f"{fold(other)}: another munge key than {source} has, so slurmd could not register. Copy munge.key of a node into the "
            "secrets directory as munge_key"
        )


def _of_jobs(site: RestoreSite, found: JobFates) -> Iterator[str]:
    remedy = "-e restore_loses_jobs=accept restores all the same"
    silent = {node: why for node, why in site.lost.items() if node not in site.core}
    if silent:
        names = few([f"{node} ({why})" for node, why in sorted(silent.items())])
        yield (
            f"nodes that reported no jobs: {names}. Slurm would end any job there that the backup of {text_of(site.jobs().at)} "
            f"does not have as running; {remedy}"
        )
    if found.ended:
        yield f"{len(found.ended)} running jobs would be ended; {remedy}:"
        yield from (f"  job {job}: {why}" for job, why in sorted(found.ended.items()))


def _of_ids(next_job: int) -> Iterator[str]:
    if next_job > LARGEST:
        yield f"restore_job_gap: the next job would have the id {next_job}; allowed: at most {LARGEST}"
