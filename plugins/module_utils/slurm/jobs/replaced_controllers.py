# SPDX-License-Identifier: GPL-3.0-or-later
"""Find jobs that the wanted controllers do not know, from a node that runs them.

A slurmctld that starts without the StateSaveLocation of the jobs asks the nodes what runs there and ends each job that it does not know.
So does one on another machine, one on a machine that was installed anew, under the same address, and one whose StateSaveLocation is not
mounted. Nothing on such a machine says that there are jobs; the nodes do.
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
    """What the wanted controllers would lose on a node, and whether its own do not answer: then each node speaks only for itself."""

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
    """Compare the controllers that this node's slurmd asks with the wanted ones, both as `address:port`.

    One finding where they have no address in common and the old ones know jobs, or do not answer while a job's step runs here. With
    `first_start`, the wanted controllers have no jobs in StateSaveLocation, so that an address in common proves nothing. With `new`, the
    wanted controllers do not have this node, so that they do not know a step here.
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
