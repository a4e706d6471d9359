#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ask a running Slurm which leaving nodes and partitions still have jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_in_use
short_description: Find what must stay in slurm.conf because jobs still use it
version_added: 0.1.0
description:
  - Compares the nodes and partitions in force, in slurm.conf and all it includes and in slurmctld, with the wanted ones. For
    those that leave, asks Slurm for their jobs, and returns the lines that keep these jobs alive until they end. A job that
    waits for a node by name needs it too.
  - Fails when slurmctld would lose its jobs or not start under the wanted name and state directory.
  - Changes nothing, and runs in check mode.
  - A host without slurm.conf has nothing to keep. When something leaves and slurmctld does not answer, the module fails
    unless O(unasked) is true, since nobody knows what would be killed.
options:
  nodes:
    description: The wanted nodes, as a Slurm hostlist.
    type: str
    required: true
  partitions:
    description: The names of the wanted partitions.
    type: list
    elements: str
    required: true
  cluster:
    description: >-
      The wanted C(ClusterName). With jobs it must be the one in force; and the state directory must not belong to another cluster.
    type: str
    required: true
  state_save_location:
    description: >-
      The wanted C(StateSaveLocation). With jobs it must be the one in force, or, while slurmctld is stopped, where the state has been
      moved to.
    type: path
    required: true
  slurmd_spool_dir:
    description: The wanted C(SlurmdSpoolDir). With running jobs it must be the one in force. Empty is not compared.
    type: str
    default: ''
  controllers:
    description: The wanted controllers. One that is none of them must not run slurmctld any more. Empty is not compared.
    type: list
    elements: str
    default: []
  unasked:
    description: Go on when slurmctld does not answer. Jobs on leaving nodes and in leaving partitions are lost.
    type: bool
    default: false
  directory:
    description: Where slurm.conf and gres.conf are.
    type: path
    default: /etc/slurm
author: The bedplate authors
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Ask which leaving nodes and partitions still have jobs
  bedplate.cluster.slurm_in_use:
    nodes: gpu[01-04]
    partitions: [gpu]
    cluster: lab
    state_save_location: /var/lib/slurm/slurmctld
  register: slurm_in_use
# => slurm_in_use.partitions: {"debug": ["17"]}
# => slurm_in_use.slurm: ["PartitionName=debug Nodes=gpu[01-02] Default=NO State=DRAIN Hidden=YES"]
"""

RETURN = r"""
configured: {description: Whether this host has a slurm.conf that could be compared., type: bool, returned: success}
slurm: {description: Lines to add to slurm.conf., type: list, elements: str, returned: always}
gres: {description: Lines to add to gres.conf., type: list, elements: str, returned: always}
nodes: {description: "Leaving nodes that are kept, with the ids of their jobs.", type: dict, returned: always}
partitions: {description: "Leaving partitions that are kept, with the ids of their jobs.", type: dict, returned: always}
"""

import os
from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import HostlistError, expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf_reader import Conf, read
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.identity import OVERRIDE, Identity, find_problems
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import (
    JOB_FORMAT,
    Live,
    Retained,
    leaving,
    parse_live,
    retain,
)

_START = f"Start slurmctld (`systemctl status slurmctld`, `journalctl -u slurmctld`) and run again; or, {OVERRIDE}."
_QUESTIONS = (
    ("scontrol", "show", "config"),
    ("scontrol", "--oneliner", "--all", "show", "nodes"),
    ("scontrol", "--oneliner", "--all", "show", "partitions"),
    ("squeue", "--local", "--noheader", "--all", f"--format={JOB_FORMAT}"),
)


def _ask(module: AnsibleModule, slurm_conf: Path) -> Live | None:
    """Ask slurmctld everything; None when it does not answer, for half an answer would hide jobs."""
    for name in [name for name in os.environ if name.startswith(("SQUEUE_", "SLURM_"))]:
        del os.environ[name]  # a login's habits, such as SQUEUE_STATES, would hide jobs as well
    answers = []
    for question in _QUESTIONS:
        rc, out, _err = module.run_command(
            ["timeout", "30", *question], environ_update={"SLURM_CONF": str(slurm_conf), "LC_ALL": "C"}
        )
        if rc != 0:
            return None
        answers.append(str(out))
    return parse_live(*answers)


def _unasked_problems(conf: Conf, nodes: list[str], partitions: list[str]) -> list[str]:
    """Return why a slurmctld that does not answer is a problem."""
    problems = []
    if nodes or partitions:
        problems.append(
            f"slurmctld does not answer, so nobody knows which jobs would be lost: nodes {fold(nodes) or 'none'} and "
            f"partitions {', '.join(partitions) or 'none'} leave the cluster file. {_START}"
        )
    if conf.unread:
        problems.append(
            "slurmctld does not answer, and part of slurm.conf cannot be read, so nobody knows which nodes and partitions "
            f"are in force: {'; '.join(conf.unread)}. {_START}"
        )
    return problems


def _warn(module: AnsibleModule, kept: Retained, live: Live) -> None:
    """Say what stays for which jobs; things with the same jobs in one line."""
    waiting = {job.id for job in live.jobs if not job.nodes}
    for kind, things in (("node", kept.nodes), ("partition", kept.partitions)):
        by_users: dict[tuple[str, ...], list[str]] = {}
        for name, users in things.items():
            by_users.setdefault(tuple(users), []).append(name)
        for jobs, names in by_users.items():
            stuck = [job for job in jobs if job in waiting] if kind == "node" else []
            what = f"{kind} {fold(names)}" if kind == "node" else f"{kind} {', '.join(names)}"
            hint = f" Of these {', '.join(stuck)} wait for it by name: cancel or change them." if stuck else ""
            module.warn(
                f"{what} has left the cluster file but stays until its jobs end (ids {', '.join(jobs)}). Run again then.{hint}"
            )


def _find(module: AnsibleModule) -> tuple[Retained, list[str]]:
    """Return what must stay, and what stands against the change."""
    names = ("cluster", "state_save_location", "slurmd_spool_dir", "controllers")
    cluster, state, spool, controllers = (module.params[name] for name in names)
    wanted = Identity(cluster, state, spool, tuple(controllers))
    directory, unasked = Path(module.params["directory"]), module.params["unasked"]
    if not (directory / "slurm.conf").exists():
        return Retained(), find_problems(wanted, Conf(), None, unasked=True)
    conf = read(directory / "slurm.conf")
    live = _ask(module, directory / "slurm.conf")
    nodes = expand(module.params["nodes"]) if module.params["nodes"] else []
    gone = leaving(conf, live, nodes, module.params["partitions"])
    problems = find_problems(wanted, conf, live, unasked)
    if live is None and not unasked:
        problems += _unasked_problems(conf, *gone)
    if live is None or problems:
        return Retained(), problems
    kept = retain(conf, read(directory / "gres.conf"), *gone, live)
    _warn(module, kept, live)
    return kept, []


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "str", "required": True},
            "partitions": {"type": "list", "elements": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            "state_save_location": {"type": "path", "required": True},
            "slurmd_spool_dir": {"type": "str", "default": ""},
            "controllers": {"type": "list", "elements": "str", "default": []},
            "unasked": {"type": "bool", "default": False},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        supports_check_mode=True,
    )
    try:
        kept, problems = _find(module)
    except (HostlistError, OSError) as error:
        kept, problems = Retained(), [f"the configuration in {module.params['directory']} cannot be read: {error}"]
    if problems:
        module.fail_json(msg="\n".join(problems))
    configured = (Path(module.params["directory"]) / "slurm.conf").exists()
    module.exit_json(changed=False, configured=configured, **asdict(kept))


if __name__ == "__main__":
    main()
