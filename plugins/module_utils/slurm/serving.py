# SPDX-License-Identifier: GPL-3.0-or-later
"""Find jobs of controllers that the cluster file no longer has, from a node that they serve.

A slurmctld that starts on another machine, without the old one's StateSaveLocation, asks the nodes what runs there and ends each job
that it does not know. The new machine has no slurm.conf yet, so nothing on it says that there is another controller; the nodes do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import Outcome

KIND = "other-controllers"
REMEDY = (
    "To move the controller, with jobs or without: stop slurmctld on the old one (`systemctl disable --now slurmctld`), copy all of "
    "StateSaveLocation to the new one, owned by SlurmUser, then run with -e slurm_compute_new_controllers=true. Or name the old one again"
)
_SERVERS = re.compile(r"--conf-server[ =]([^\s\"']+)")
_STEP = "slurmstepd"


def jobs_of_others(
    wanted: Sequence[str], where: str, run: Callable[[list[str]], Outcome], root: Path = Path("/")
) -> list[Finding]:
    """Compare the controllers that this node's slurmd asks with the wanted ones, both as `address:port`.

    One finding where they have no address in common and the old ones know jobs, or do not answer while a job's step runs here.
    """  # fmt: skip
    old = _servers(root / "etc/default/slurmd")
    if not old or {_address(one) for one in old} & {_address(one) for one in wanted}:
        return []
    asked = run(["squeue", "--noheader", "--all", "--format=%i"])
    jobs = asked.stdout.split() if asked.code == 0 else []
    if jobs:
        known = f"{', '.join(old)}, where Slurm knows {len(jobs)} job{'s' * (len(jobs) > 1)}"
    elif asked.code != 0 and _step_runs(root):
        known = f"{', '.join(old)}, where no slurmctld answers, and a running job"
    else:
        return []
    return [Finding(KIND, where, f"the controllers {', '.join(wanted)}", known, REMEDY)]


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
            if path.read_text(errors="replace").strip() == _STEP:
                return True
        except OSError:
            continue  # it has ended
    return False
