# SPDX-License-Identifier: GPL-3.0-or-later
"""Find jobs, on a node that runs them, that the new controllers do not know.

A slurmctld that starts without the StateSaveLocation of the jobs queries the nodes and ends each job that it does not know. So does a
slurmctld on another machine, on a reinstalled machine with the same address, or with a StateSaveLocation that is not mounted. Only the
nodes show that there are jobs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common.command import Outcome
from ...common.finding import Finding
from ...common.processes import is_step
from ..live.slurm_commands import drop_login_variables

KIND = "other-controllers"
REMEDY = (
    "To move the controller, with jobs or without: stop slurmctld on the old one (`systemctl disable --now slurmctld`), copy all of "
    "StateSaveLocation to the new one, owned by SlurmUser, then run with -e slurm_compute_new_controllers=true. Or name the old one again"
)
REMEDY_LOST = (
    "Mount StateSaveLocation on the controller, or copy all of it from a backup, owned by SlurmUser, and run again. Or "
    "wait until no job runs on a node. Or, if the jobs do not matter, run with -e slurm_compute_new_controllers=true"
)
_SERVERS = re.compile(r"--conf-server[ =]([^\s\"']+)")


@dataclass(frozen=True)
class Served:
    """Jobs that the new controllers would lose on a node, and whether its own controllers answer (else each node reports on itself)."""

    others: tuple[Finding, ...] = ()
    silent: bool = False


def jobs_of_others(
    wanted: Sequence[str],
    where: str,
    run: Callable[[list[str]], Outcome],
    root: Path = Path("/"),
    *,
    new: bool = False,
    first_start: bool = False,
) -> Served:
    """Compare the controllers of this node's slurmd with the new ones, both as `address:port`.

    Return one finding if they have no address in common and the old ones know jobs, or do not answer while a job's step runs here. With
    `first_start`, the new controllers have no jobs in StateSaveLocation, so a common address proves nothing. With `new`, the new
    controllers do not have this node, so they do not know a step here.
    """
    old = _servers(root / "etc/default/slurmd")
    if not old:
        here = (new or first_start) and _step_runs(root)
        known = "a running job, and no controllers in /etc/default/slurmd" if here else ""
        return _served(wanted, where, known, REMEDY_LOST if first_start and not new else REMEDY)
    same = bool({_address(one) for one in old} & {_address(one) for one in wanted})
    if same and not first_start:
        return Served()
    drop_login_variables()
    asked = run(["squeue", "--noheader", "--all", "--format=%i"])
    jobs = asked.stdout.split() if asked.code == 0 else []
    known = ""
    if jobs:
        known = f"{', '.join(old)}, where Slurm knows {len(jobs)} job{'s' * (len(jobs) > 1)}"
    elif asked.code != 0 and _step_runs(root):
        known = f"{', '.join(old)}, where no slurmctld answers, and a running job"
    return _served(wanted, where, known, REMEDY_LOST if same else REMEDY, silent=asked.code != 0)


def _served(wanted: Sequence[str], where: str, known: str, remedy: str, silent: bool = False) -> Served:
    one = Finding(KIND, where, f"the controllers {', '.join(wanted)} with the jobs of this node", known, remedy)
    return Served((one,) if known else (), silent)


def _servers(path: Path) -> list[str]:
    try:
        found = _SERVERS.findall(path.read_text(errors="replace"))
    except OSError:
        return []
    return found[-1].split(",") if found else []


def _address(server: str) -> str:
    """Return the host of `host:port`.

    >>> [_address(one) for one in ("10.0.0.1:6817", "ctl1", "[fd00::1]:6817")]
    ['10.0.0.1', 'ctl1', '[fd00::1]']
    """
    return re.sub(r":\d+$", "", server)


def _step_runs(root: Path) -> bool:
    for path in (root / "proc").glob("[0-9]*/comm"):
        try:
            name = path.read_text(errors="replace").strip()
        except OSError:
            continue  # it has ended
        if is_step(path.parent, name):
            return True
    return False
