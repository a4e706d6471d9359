# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that slurmctld still finds its jobs after a change: they belong to a cluster name and a state directory.

A slurmctld that starts on another StateSaveLocation starts without jobs, and the nodes kill the jobs that it does not know. A slurmctld
with another ClusterName refuses to start, since the directory records its cluster. Two that write one directory corrupt it. A slurmd with
another SlurmdSpoolDir does not know the jobs on its node.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..conf.conf_reader import Conf
from ..live.slurmctld_report import Live

# Slurm's own default of StateSaveLocation.
DEFAULT_STATE = "/var/spool"
# The options that this module compares.
IDENTITY = ("ClusterName", "StateSaveLocation", "SlurmdSpoolDir")
_DEFAULTS = {"StateSaveLocation": DEFAULT_STATE, "SlurmdSpoolDir": "/var/spool/slurmd"}
OVERRIDE = "if no job matters, run with -e '{\"slurm_controller_remove_unasked\": true}'"
_EMPTY = "let no new job in (`scontrol update partitionname=NAME state=drain`), wait until `squeue --all` is empty"


@dataclass(frozen=True)
class Identity:
    """Cluster name, state directory, spool directory of the nodes, and controllers; an empty one is not compared."""

    cluster: str
    state: str
    spool: str = ""
    controllers: tuple[str, ...] = ()


def find_problems(wanted: Identity, conf: Conf, live: Live | None, unasked: bool) -> list[str]:
    """Return the reasons why slurmctld would lose its jobs or not start, each with a remedy; may be empty.

    `live` is None if slurmctld does not answer; with `unasked`, that is accepted.
    """
    cluster = _differing("ClusterName", conf, live, wanted.cluster, str.lower)
    state = _differing("StateSaveLocation", conf, live, wanted.state, os.path.realpath)
    at_stake = bool(live.jobs) if live else not unasked
    problems = []
    owner = owner_of(wanted.state)
    if cluster and at_stake:
        problems.append(_renamed(cluster, state or wanted.state, wanted, live))
    elif owner and owner.lower() != wanted.cluster.lower():
        problems.append(_owned(owner, wanted))
    if state and at_stake and not (live is None and _moved(state, wanted.state)):
        problems.append(_elsewhere(state, wanted, live))
    spool = _differing("SlurmdSpoolDir", conf, live, wanted.spool, os.path.normpath) if wanted.spool else None
    running = [job.id for job in live.jobs if job.nodes] if live else []
    if spool and (running or not (live or unasked)):
        problems.append(_other_spool(spool, wanted, running))
    left = [name for name in _controllers(conf) if name not in wanted.controllers] if wanted.controllers else []
    if still := [name for name in left if live and name in live.up]:
        problems.append(_two_controllers(still, wanted))
    return problems


def _controllers(conf: Conf) -> list[str]:
    """Return the names of a file's controllers: `ctl1` for `SlurmctldHost=ctl1(10.0.0.1)`."""
    values = [value for line in conf.lines for key, value in line.items() if key.lower() == "slurmctldhost"]
    return [value.partition("(")[0] for value in values]


def _differing(option: str, conf: Conf, live: Live | None, wanted: str, form: Callable[[str], str]) -> str | None:
    """Return the value in force, from the file or from slurmctld, if it differs from the desired one."""
    default = _DEFAULTS.get(option) if conf.lines else None
    in_force = [conf.option(option) or default, live.config.get(option) if live else None]
    return next((value for value in in_force if value and form(value) != form(wanted)), None)


def owner_of(state: str) -> str | None:
    """Return the cluster that a state directory records, None if it records none."""
    try:
        # From 24.11 on an id follows the name: lab|4021.
        return (Path(state) / "clustername").read_text(errors="replace").partition("|")[0].strip() or None
    except OSError:
        return None  # slurmctld reports this itself if it cannot read its own directory


def _moved(old: str, new: str) -> bool:
    """Return whether the state exists in the new directory and no longer in the old one."""
    return (Path(new) / "job_state").exists() and not (Path(old) / "job_state").exists()


def _known(live: Live | None) -> str:
    return f"Slurm has {len(live.jobs)} jobs" if live else "slurmctld does not answer, so its jobs are unknown"


def _renamed(old: str, state: str, wanted: Identity, live: Live | None) -> str:
    return (
        f"the cluster file says `cluster: {wanted.cluster}`, Slurm runs as {old}, and {_known(live)}: jobs and their "
        f"accounting belong to {old} and would be lost. Write `cluster: {old}` again. Or, to rename it: "
        f"{'' if live else 'start slurmctld, '}{_EMPTY}, remove {state}/clustername and run again"
        f"{'' if live else f'; or, {OVERRIDE}'}."
    )


def _elsewhere(old: str, wanted: Identity, live: Live | None) -> str:
    return (
        f"StateSaveLocation would become {wanted.state}, Slurm keeps its state in {old}, and {_known(live)}: slurmctld "
        f"would start without them. Write `StateSaveLocation: {old}` under slurm.options of the cluster file. Or, to move "
        f"it: stop slurmctld on every controller (`systemctl stop slurmctld`), move all of {old} to {wanted.state}, owned "
        f"by SlurmUser, and run again. Or {'' if live else 'start slurmctld, '}{_EMPTY} and run again"
        f"{'' if live else f'; or, {OVERRIDE}'}."
    )


def _other_spool(old: str, wanted: Identity, running: list[str]) -> str:
    known = f"jobs {', '.join(running[:10])} run" if running else "slurmctld does not answer, so its jobs are unknown"
    return (
        f"SlurmdSpoolDir would become {wanted.spool}, the nodes have {old}, and {known}: a slurmd that starts there does not find "
        f"its jobs. Write `SlurmdSpoolDir: {old}` under slurm.options of the cluster file. Or {_EMPTY} and run again"
        f"{'' if running else f'; or, {OVERRIDE}'}."
    )


def _two_controllers(still: list[str], wanted: Identity) -> str:
    return (
        f"{', '.join(still)} removed from services.controllers, but slurmctld still runs there: two would write the same state, or one "
        f"would start without its jobs. There: `systemctl disable --now slurmctld`. Jobs keep running. Make {wanted.state} available on "
        f"{', '.join(wanted.controllers)}, then run again."
    )


def _owned(owner: str, wanted: Identity) -> str:
    return (
        f"{wanted.state}/clustername says that this state belongs to the cluster {owner}, but the cluster file says "
        f"`cluster: {wanted.cluster}`: slurmctld would refuse to start. If {owner} still uses that directory, set another "
        f"StateSaveLocation under slurm.options. If {owner} was renamed to {wanted.cluster} and has no job left, remove "
        f"{wanted.state}/clustername and run again."
    )
