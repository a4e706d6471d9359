# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the accounting database with the accounts, users and QOS of the cluster file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...common.command import Outcome
from ...common.finding import WARNING, Finding
from ..live.live_drift import SLURM, query
from .accounts_plan import DesiredAccounts, ListedAccounts, calls, found
from .unlisted_accounts import SQUEUE, jobs, unlisted

FIELDS = "format=Account,User,ParentName,QOS,DefaultQOS"


def findings(
    _root: str, expected: Mapping[str, Any], ask: Callable[[Sequence[Sequence[str]]], list[Outcome]] = query
) -> Iterator[Finding]:
    """Yield differences: an error for what playbooks/scheduler.yml would change, a warning for what the cluster file lacks."""
    wanted = DesiredAccounts(expected["qos"], expected["accounts"])
    if not wanted.accounts and not wanted.qos:
        return
    options = wanted.qos_options()
    questions = (
        ["sacctmgr", "--parsable2", "list", "qos", "format=" + ",".join(["Name", *options])],
        ["sacctmgr", "--parsable2", "list", "associations", f"cluster={expected['cluster']}", FIELDS],
        SQUEUE,
    )
    outcomes = ask(questions)
    for question, outcome in zip(questions, outcomes):
        if outcome.code != 0:
            remedy = "`systemctl status slurmdbd` and `journalctl -u slurmdbd` on the database host"
            yield Finding("slurmdbd-silent", question[0], "an answer", outcome.error_line, remedy, machine=SLURM)
            return
    state = found(outcomes[0].stdout, outcomes[1].stdout, options)
    yield from compare(str(expected["cluster"]), wanted, state, outcomes[2].stdout)


def compare(cluster: str, wanted: DesiredAccounts, state: ListedAccounts, squeue: str) -> Iterator[Finding]:
    """Compare the objects in the database; `squeue` is the output of SQUEUE."""
    for call in calls(cluster, wanted, state):
        what = f"{call[1]} {call[2]}"
        text = "not in Slurm's database" if call[0] == "add" else f"needs: sacctmgr {' '.join(call)}"
        yield Finding(
            "slurm-account", what, "as in the cluster file", text, "run playbooks/scheduler.yml", machine=SLURM
        )
    for one in unlisted(wanted, state, jobs(squeue)):
        yield Finding(
            "slurm-account-unlisted",
            str(one),
            "in slurm.accounts of the cluster file, or not in Slurm",
            "only in Slurm, with access to the cluster",
            "add it to slurm.accounts, or run playbooks/scheduler.yml with -e slurm_accounts_remove=true, which keeps accounts with jobs",
            WARNING,
            SLURM,
        )
