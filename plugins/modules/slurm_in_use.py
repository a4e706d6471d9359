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
  - Compares O(node_lines) and O(gres_lines) with the lines in force. Slurm ends the jobs of a node whose hardware changes, so a node
    with jobs keeps the lines that it has; so does a node that is not in O(counted).
  - Fails when slurmctld would lose its jobs or not start under the wanted name and state directory, and when an option of O(guarded)
    would change while jobs run.
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
  node_lines:
    description: The wanted NodeName lines. Empty is not compared.
    type: list
    elements: str
    default: []
  gres_lines:
    description: The wanted lines of gres.conf.
    type: list
    elements: str
    default: []
  counted:
    description:
      - The nodes, as a Slurm hostlist, whose hardware M(bedplate.cluster.slurm_node_hardware) has found to be as the wanted lines say.
        All other nodes whose hardware changes keep their lines.
      - Left out before anything was counted; then only jobs keep a line.
    type: str
  guarded:
    description: Options whose change ends running jobs, with the wanted value and where the operator states it.
    type: list
    elements: dict
    default: []
    suboptions:
      option: {description: The option of slurm.conf., type: str, required: true}
      value: {description: The wanted value. Empty is Slurm's own default., type: str, required: true}
      place: {description: Where it is stated., type: str, required: true}
  read_back:
    description: Keep only the lines that an earlier run has kept, to compare with what is in force.
    type: bool
    default: false
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
count: {description: "Nodes, as a hostlist, whose hardware must be counted before their lines change.", type: str, returned: always}
new: {description: "Those of RV(count) that are not in force yet, as a hostlist.", type: str, returned: always}
changing:
  description: Groups of like nodes whose lines change.
  type: list
  elements: dict
  returned: always
  contains:
    nodes: {description: The nodes as a hostlist., type: str, sample: "gpu[01-02]"}
    changes: {description: What changes., type: list, elements: str, sample: ["CoresPerSocket 2 -> 4"]}
    waits: {description: "What the change waits for: V(jobs), V(uncounted), or nothing.", type: str, sample: jobs}
    jobs: {description: The ids of the jobs., type: list, elements: str, sample: ["17"]}
    gres: {description: Gres in force., type: str, sample: "gpu:h100:8"}
    cpus: {description: CPUs in force., type: int, sample: 112}
    memory: {description: "RealMemory in force, in MiB.", type: int, sample: 1031000}
"""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import HostlistError, expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm import hardware
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf_reader import Conf, parse, read
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


@dataclass
class Answer:
    """What must stay, and which nodes change."""

    kept: Retained = field(default_factory=Retained)
    changing: list[hardware.Group] = field(default_factory=list)
    count: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Return the result of the module."""
        groups = [asdict(group) for group in self.changing]
        return {**asdict(self.kept), "changing": groups, "count": fold(self.count), "new": fold(self.new)}


def _unasked_problems(conf: Conf, nodes: list[str], partitions: list[str], changed: list[str]) -> list[str]:
    """Return why a slurmctld that does not answer is a problem."""
    problems = []
    if nodes or partitions:
        problems.append(
            f"slurmctld does not answer, so nobody knows which jobs would be lost: nodes {fold(nodes) or 'none'} and "
            f"partitions {', '.join(partitions) or 'none'} leave the cluster file. {_START}"
        )
    if changed:
        problems.append(
            f"slurmctld does not answer, so nobody knows which jobs would be lost: the hardware of nodes {fold(changed)} changes in "
            f"the cluster file. {_START}"
        )
    if conf.unread:
        problems.append(
            "slurmctld does not answer, and part of slurm.conf cannot be read, so nobody knows which nodes and partitions "
            f"are in force: {'; '.join(conf.unread)}. {_START}"
        )
    return problems


def _guarded_problems(guarded: list[dict[str, str]], conf: Conf, live: Live) -> list[str]:
    """Return the options that would end running jobs, with what to do."""
    running = [job.id for job in live.jobs if job.nodes]
    problems = []
    for row in guarded if running else ():
        now = conf.option(row["option"]) or live.config.get(row["option"], "")
        default = not conf.option(row["option"]) and not row["value"]
        if not default and now.lower() != row["value"].lower():
            problems.append(
                f"{row['option']} would become {row['value'] or 'what Slurm does by default'}, {now} is in force, and jobs "
                f"{few(running, 10)} run: this change ends them. Write `{row['option']}: {now}` under {row['place']} again. Or let no new "
                "job in (`scontrol update partitionname=NAME state=drain`), wait until `squeue --all` is empty, and run again."
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


def _warn_changing(module: AnsibleModule, groups: list[hardware.Group]) -> None:
    """Name the nodes that keep their lines, a line for each group of like ones."""
    for group in groups:
        what = f"{group.nodes}: {', '.join(group.changes)}"
        if group.waits == hardware.JOBS:
            module.warn(
                f"{what}: waits until the jobs there end (ids {few(group.jobs, 10)}). Until then these nodes keep their lines of "
                "slurm.conf and gres.conf as they are in force. Run playbooks/scheduler.yml again then."
            )
        elif group.waits:
            module.warn(
                f"{what}: waits, because this run has not counted what these nodes have (not reached, left out by --limit, or the play was "
                "skipped). They keep their lines of slurm.conf and gres.conf as they are in force. Run playbooks/scheduler.yml again, with "
                "them reachable and without --limit."
            )


def _waits(
    module: AnsibleModule, plan: hardware.Plan, live: Live, text: str
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return what each changing node waits for, and the ids of the jobs on each node."""
    jobs: dict[str, list[str]] = {}
    for job in live.jobs:
        for name in job.nodes:
            jobs.setdefault(name, []).append(job.id)
    waits = {name: hardware.JOBS for name in plan.changes if name in jobs}
    if module.params["read_back"]:
        earlier = hardware.marked(text)
        return {name: waits.get(name, hardware.UNCOUNTED) for name in plan.changes if name in earlier}, jobs
    if module.params["counted"] is not None:
        counted = set(expand(module.params["counted"]))
        for name, change in plan.changes.items():
            if change.of_hardware and name not in counted:
                waits.setdefault(name, hardware.UNCOUNTED)
    return waits, jobs


def _find(module: AnsibleModule) -> tuple[Answer, list[str]]:
    """Return what must stay, and what stands against the change."""
    names = ("cluster", "state_save_location", "slurmd_spool_dir", "controllers")
    cluster, state, spool, controllers = (module.params[name] for name in names)
    identity = Identity(cluster, state, spool, tuple(controllers))
    directory, unasked = Path(module.params["directory"]), module.params["unasked"]
    nodes = expand(module.params["nodes"]) if module.params["nodes"] else []
    if not (directory / "slurm.conf").exists():
        return Answer(count=nodes, new=nodes), find_problems(identity, Conf(), None, unasked=True)
    conf, gres = read(directory / "slurm.conf"), read(directory / "gres.conf")
    live = _ask(module, directory / "slurm.conf")
    gone = leaving(conf, live, nodes, module.params["partitions"])
    wanted = [parse("\n".join(module.params[name])) for name in ("node_lines", "gres_lines")]
    plan = hardware.compare(conf, gres, live, *wanted) if wanted[0].lines else hardware.Plan()
    problems = find_problems(identity, conf, live, unasked)
    if live is None and not unasked:
        problems += _unasked_problems(conf, *gone, list(plan.changes))
    if live is not None:
        problems += _guarded_problems(module.params["guarded"], conf, live)
    if live is None or problems:
        return Answer(count=plan.to_count(), new=plan.new), problems
    kept = retain(conf, gres, *gone, live)
    waits, jobs = _waits(module, plan, live, (directory / "slurm.conf").read_text(errors="replace"))
    lines = hardware.kept_lines(plan, gres, waits)
    kept.slurm += lines[0]
    kept.gres += lines[1]
    changing = hardware.grouped(plan, waits, jobs)
    _warn(module, kept, live)
    _warn_changing(module, changing)
    return Answer(kept, changing, plan.to_count(), plan.new), []


def main() -> None:
    """Run the module."""
    guarded = {name: {"type": "str", "required": True} for name in ("option", "value", "place")}
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "str", "required": True},
            "partitions": {"type": "list", "elements": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            "state_save_location": {"type": "path", "required": True},
            "slurmd_spool_dir": {"type": "str", "default": ""},
            "controllers": {"type": "list", "elements": "str", "default": []},
            "node_lines": {"type": "list", "elements": "str", "default": []},
            "gres_lines": {"type": "list", "elements": "str", "default": []},
            "counted": {"type": "str"},
            "guarded": {"type": "list", "elements": "dict", "default": [], "options": guarded},
            "read_back": {"type": "bool", "default": False},
            "unasked": {"type": "bool", "default": False},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        supports_check_mode=True,
    )
    try:
        answer, problems = _find(module)
    except (HostlistError, OSError) as error:
        answer, problems = Answer(), [f"the configuration in {module.params['directory']} cannot be read: {error}"]
    if problems:
        module.fail_json(msg="\n".join(problems))
    configured = (Path(module.params["directory"]) / "slurm.conf").exists()
    module.exit_json(changed=False, configured=configured, **answer.facts())


if __name__ == "__main__":
    main()
