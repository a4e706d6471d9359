# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the cluster file, the opened backup, and the reports of hosts and nodes, from which a restore is planned."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_list import BackedUpJobs
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import DATABASE, STATE
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.put_back import BEGUN

from .opened_backup import OpenedBackup

MUNGE = "munge_key"


@dataclass(frozen=True)
class RestoreSite:
    """A site before a restore.

    `cluster`, `release`: name of Slurm's cluster and release such as 24.11, of the cluster file. `controllers`, `database`: hosts in the
    order of the cluster file. `looks`: host -> what bedplate.cluster.slurm_restore looked at. `nodes`: node -> its `jobs` and `munge`.
    `lost`: host or node -> why it reported nothing. `munge`: SHA-256 of the control node's munge key, "" without one.
    """

    cluster: str
    release: str
    controllers: Sequence[str]
    database: Sequence[str]
    backup: OpenedBackup
    looks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    munge: str = ""

    @property
    def primary(self) -> str:
        """The controller whose state is restored."""
        return self.controllers[0]

    @property
    def core(self) -> list[str]:
        """Hosts that are restored."""
        return list(dict.fromkeys([*self.database, *self.controllers]))

    def jobs(self) -> BackedUpJobs:
        """Return the jobs of the backup."""
        host = self.backup.host_of(STATE)
        found = self.backup.manifests[host].jobs if host else None
        return found or BackedUpJobs(0)

    def steps(self, host: str) -> Mapping[str, int]:
        """Return the steps that an earlier call has done on a host from this backup."""
        look = self.looks.get(host, {})
        return look.get("steps", {}) if look.get("backup") == self.backup.digest else {}

    def is_finished(self) -> bool:
        """Return whether an earlier call has restored this backup to its end, and slurmctld runs."""
        return "finished" in self.steps(self.primary) and bool(self.controller(self.primary).get("runs"))

    def controller(self, host: str) -> Mapping[str, Any]:
        """Return what was found of slurmctld on a host."""
        found: Mapping[str, Any] = self.looks.get(host, {}).get("controller", {})
        return found

    def database_look(self) -> Mapping[str, Any]:
        """Return what was found of the database."""
        host = next(iter(self.database), "")
        found: Mapping[str, Any] = self.looks.get(host, {}).get("database", {})
        return found

    def keeps_database(self, over: bool) -> bool:
        """Return whether the database stays: it has jobs, so it is newer than the backup. Half of one, of a killed restore, does not."""
        host = next(iter(self.database), "")
        is_restored = "database" in self.steps(host)
        # Of whichever backup.
        steps = self.looks.get(host, {}).get("steps", {})
        is_half = BEGUN in steps and "database" not in steps
        return bool(self.database_look().get("jobs")) and not over and not is_restored and not is_half

    def key_digest(self) -> str:
        """Return the SHA-256 of the munge key that the controllers get: the control node's, or that of the backup."""
        if self.munge or MUNGE not in self.backup.secrets:
            return self.munge
        return hashlib.sha256(self.backup.secrets[MUNGE]).hexdigest()

    def on_nodes(self) -> dict[int, list[str]]:
        """Return job -> nodes that run a step of it."""
        found: dict[int, list[str]] = {}
        for node, look in self.nodes.items():
            for job in look["jobs"]:
                found.setdefault(int(job), []).append(node)
        return found

    def next_job(self, gap: int) -> int:
        """Return the least id of the next job: beyond all ids that are known to be in use, and `gap` more for all others."""
        state = self.backup.host_of(STATE)
        saved = int(self.backup.manifests[state].members[STATE]["next_job"]) if state else 1
        used = max([0, *self.on_nodes(), int(self.database_look().get("largest", 0))])
        return max(saved, used + 1) + gap

    def has_database(self) -> bool:
        """Return whether the backup has a dump."""
        return bool(self.backup.host_of(DATABASE))
