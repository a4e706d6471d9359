# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the hosts of each play of an upgrade, and judge it, by what the tasks before registered.

Nothing relies on Ansible's own record of failed hosts: a host that failed must still be reached on the way back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

PLAN, FAILURE, DONE = "__upgrade", "__upgrade_failure", "__upgrade_done"
"""Variables of the playbook: the plan, why a task failed on a host, and that a node or client has finished."""
BACK_FAILURE = "__upgrade_back_failure"
DUMPED, ARCHIVED, PRIMARY = "__upgrade_dumped", "__upgrade_archived", "__upgrade_primary"
FETCHED, GAP, STANDBY = "__upgrade_fetched", "__upgrade_gap", "__upgrade_standby"
MARKED, INSTALLED = "__upgrade_marked", "__upgrade_installed"
BACK_DBD, BACK_PRIMARY = "__upgrade_back_dbd", "__upgrade_back_primary"
"""Results of tasks."""
_REGISTERED = (
    "__upgrade_begun",
    FETCHED,
    "__upgrade_stopped_dbd",
    DUMPED,
    "__upgrade_stopped_ctld",
    ARCHIVED,
    MARKED,
    INSTALLED,
    "__upgrade_started_dbd",
    "__upgrade_dbd",
    "__upgrade_started_ctld",
    PRIMARY,
    "__upgrade_served",
    STANDBY,
    "__upgrade_finished",
    "__upgrade_stopped",
    GAP,
)
_BACK = ("__upgrade_back_", "__upgrade_restored", "__upgrade_aside")
NOBODY = ["!all"]
"""Hosts of a play without work: a pattern that fits no host."""
Raw = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Run:
    """One run of the upgrade: its plan, and the variables of its hosts."""

    plan: Mapping[str, Any]
    raw: Raw

    def hosts(self, key: str) -> list[str]:
        """Return the hosts of a play; empty in a preview, after a failure of the core, and without a plan."""
        if not self.plan or self.plan["is_preview"]:
            return []
        if key in ("fetch", "close"):
            return list(self.plan["pending"])
        if key.startswith("back"):
            return self._back(key)
        if self.stopped():
            return []
        if key.endswith("_before"):
            # An earlier call of this upgrade has come that far.
            if self.plan["served"]:
                return []
            key = key.removesuffix("_before")
        found = {
            **{name: self.plan[name] for name in ("core", "database", "nodes", "others", "controllers")},
            "primary": self.plan["controllers"][:1],
            "standbys": self.plan["controllers"][1:],
        }[key]
        return [host for host in found if not self.failure(host)]

    def _back(self, key: str) -> list[str]:
        if not self.goes_back():
            return []
        found = {
            "back": self.plan["core"],
            "back_database": self.plan["database"],
            "back_primary": self.plan["controllers"][:1],
            "back_standbys": self.plan["controllers"][1:],
            "back_core": self.plan["core"],
        }[key]
        return [] if self._back_failures() else list(found)

    def failure(self, host: str) -> str:
        """Return why a host failed or did not answer, "" if it did not."""
        variables = self.raw(host)
        if text := variables.get(FAILURE):
            return str(text)
        if _is_lost(variables, _REGISTERED):
            return "no answer by SSH"
        # A task of a role that SSH did not reach leaves no result here.
        if isinstance(variables.get(MARKED), Mapping) and not isinstance(variables.get(INSTALLED), Mapping):
            return "no answer by SSH while packages were installed"
        return ""

    def core_failures(self) -> dict[str, str]:
        """Return host of the core -> why it failed."""
        return {host: why for host in self.plan["core"] if (why := self.failure(host))}

    def has_begun(self) -> bool:
        """Return whether a daemon was stopped."""
        return any(
            isinstance(self.raw(host).get(name), Mapping) and not self.raw(host)[name].get("skipped")
            for host in self.plan["core"]
            for name in ("__upgrade_stopped_dbd", "__upgrade_stopped_ctld")
        )

    def is_served(self) -> bool:
        """Return whether the primary of the new release has served."""
        if self.plan["served"]:
            return True
        return any(self._is_up(host, PRIMARY) for host in self.plan["controllers"][:1])

    def goes_back(self) -> bool:
        """Return whether database and controllers go back to the old release."""
        if not self.plan["core"] or not self.has_begun() or not self.core_failures():
            return False
        return not self.is_served() and not self.is_unknown()

    def is_unknown(self) -> bool:
        """Return whether the primary was lost while it started: its slurmctld may serve, and have jobs that a way back would end."""
        results = (self.raw(host).get(PRIMARY) for host in self.plan["controllers"][:1])
        return any(isinstance(one, Mapping) and bool(one.get("unreachable")) for one in results)

    def node_failures(self) -> dict[str, str]:
        """Return node or client -> why it failed."""
        hosts = [*self.plan["nodes"], *(one for one in self.plan["others"] if one not in self.plan["core"])]
        return {host: why for host in dict.fromkeys(hosts) if (why := self.failure(host))}

    def stopped(self) -> str:
        """Return why nothing more begins, or ""."""
        if failed := self.core_failures():
            return f"{fold(failed)} failed"
        failed = self.node_failures()
        if len(failed) > self.plan["failures"]:
            return f"{len(failed)} hosts failed, of at most {self.plan['failures']} (upgrade_failures): {few(failed)}"
        return ""

    def verdict(self) -> dict[str, Any]:
        """Return `failed`, `msg` and the hosts by outcome."""
        if not self.plan["pending"]:
            return {"failed": False, "msg": "", "outcomes": {}}
        lines: list[str] = []
        core = self.core_failures()
        bad = {**core, **self.node_failures()}
        done = [host for host in self.plan["pending"] if host not in bad and self._is_done(host)]
        waiting = [host for host in self.plan["pending"] if host not in bad and host not in done]
        if self.goes_back():
            done, waiting = [], [host for host in self.plan["pending"] if host not in bad]
            lines += self._way_back()
        elif core and self.is_served():
            lines.append(
                f"slurmctld of {self.plan['new']} has served, so there is no way back. Correct the failure, and run "
                "playbooks/upgrade_slurm.yml again: it continues."
            )
        elif core and self.is_unknown():
            lines.append(
                f"It is unknown whether slurmctld of {self.plan['new']} has served, so nothing was restored. Running jobs continue. Run "
                "playbooks/upgrade_slurm.yml again when these hosts answer: it continues."
            )
        elif core and self.plan["resume"]:
            lines.append(
                "This call stopped nothing: packages could not be downloaded, or the folder could not be made. The upgrade of an earlier "
                "call is unfinished. Correct the failure, and run playbooks/upgrade_slurm.yml again: it continues."
            )
        elif core:
            lines.append("Nothing was stopped: packages could not be downloaded, or the folder could not be made.")
        lines += [f"{host}: {why}" for host, why in bad.items()]
        stop = self.stopped()
        if waiting and stop and not core:
            lines.append(
                f"stopped: {stop}. Nodes of {self.plan['old']} work under {self.plan['new']} meanwhile; run again"
            )
        outcomes = {
            name: fold(hosts)
            for name, hosts in (
                ("done", done),
                ("failed", list(bad)),
                ("waiting", waiting),
                ("left", list(self.plan["left"])),
            )
            if hosts
        }
        lines.append(", ".join(f"{name}: {hosts}" for name, hosts in outcomes.items()))
        return {"failed": bool(bad) or bool(waiting), "msg": "\n".join(lines), "outcomes": outcomes}

    def _back_failures(self) -> dict[str, str]:
        """Return host of the core -> why the way back failed there."""
        found = {}
        for host in self.plan["core"]:
            variables = self.raw(host)
            if BACK_FAILURE in variables:
                found[host] = str(variables[BACK_FAILURE])
            elif _is_lost(variables, [name for name in variables if name.startswith(_BACK)]):
                found[host] = "no answer by SSH"
        return found

    def _is_up(self, host: str, name: str) -> bool:
        result = self.raw(host).get(name)
        return isinstance(result, Mapping) and result.get("up") is True

    def _is_done(self, host: str) -> bool:
        if host in self.plan["core"] and host not in self.plan["others"]:
            return isinstance(self.raw(host).get("__upgrade_finished"), Mapping)
        return bool(self.raw(host).get(DONE))

    def _way_back(self) -> list[str]:
        """Return what was restored and which time is lost."""
        old = self.plan["old"]
        broken = self._back_failures()
        started = ((self.plan["database"][0], BACK_DBD), (self.plan["controllers"][0], BACK_PRIMARY))
        if not broken:
            broken = {
                host: "the daemon of the old release was not started"
                for host, name in started
                if not self._is_up(host, name)
            }
        if broken:
            return [
                f"The way back to Slurm {old} failed too. The copies are in /var/lib/bedplate/slurm-upgrade/{old}-{self.plan['new']}; "
                'docs/upgrade-slurm.md says under "Back by hand" what to do. Running jobs continue without slurmctld.',
                *(f"{host}: on the way back: {why}" for host, why in broken.items()),
            ]
        since = [_at(self.raw(host).get(name)) for host in self.plan["core"] for name in (DUMPED, ARCHIVED)]
        begun = min((one for one in since if one), default=0)
        lines = [
            f"Slurm {old} is back: packages, files, state and database, and its daemons run. Running jobs continue."
        ]
        if begun:
            lines.append(
                f"Lost: what users submitted or changed between {_text(begun)} and {_text(time.time())} (UTC)."
            )
        return lines


def plan_of(raw: Raw, hosts: Iterable[str]) -> Mapping[str, Any]:
    """Return the plan of this run, {} without one."""
    for host in hosts:
        found = raw(host).get(PLAN)
        if isinstance(found, Mapping) and "pending" in found and not found.get("failed"):
            return found
    return {}


def _is_lost(variables: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Return whether a host did not answer one of these tasks."""
    return any(isinstance(variables.get(name), Mapping) and variables[name].get("unreachable") for name in names)


def _at(result: object) -> float:
    saved = result.get("saved") if isinstance(result, Mapping) else None
    return float((saved or {}).get("at") or 0)


def _text(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
