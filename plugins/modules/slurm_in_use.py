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
  - Changes nothing, but for O(fence), and runs in check mode.
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
      lowered: {description: Whether only a lower number ends jobs., type: bool, default: false}
  fence:
    description: >-
      Drain the nodes, and close the partitions, that are about to change or leave and have no job, and ask again, so that no job starts
      there before M(bedplate.cluster.slurm_fence) gives them back. Not in check mode.
    type: bool
    default: false
  read_back:
    description: Keep only the lines that an earlier run has kept, to compare with what is in force, and refuse nothing.
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
fence:
  description: What bedplate has drained and closed, by this call or by a run that was killed.
  type: dict
  returned: always
  contains:
    nodes: {description: Nodes that are drained with a reason of bedplate's own, as a hostlist., type: str, sample: "gpu[01-02]"}
    partitions: {description: Partitions that take no new job., type: list, elements: str, sample: [debug]}
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

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import HostlistError, expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm import hardware
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.asking import ask, environment
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf_reader import Conf, parse, read
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.fence import (
    OWNER,
    Fence,
    lift_commands,
    present,
    raise_commands,
    targets,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.identity import Identity, find_problems
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.in_use import (
    Answer,
    changing_notes,
    guarded_problems,
    held_earlier,
    holding,
    leaving_notes,
    unasked_problems,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import (
    Live,
    leaving,
    retain,
)


def _lift(
    module: AnsibleModule, slurm_conf: Path, live: Live, nodes: Collection[str], partitions: Iterable[str] = ()
) -> None:
    """Give back what bedplate has taken out of service."""
    for command in lift_commands(live, nodes, partitions):
        module.run_command(["timeout", "30", *command], environ_update=environment(slurm_conf))


def _raise(module: AnsibleModule, slurm_conf: Path, fence: Fence) -> tuple[Live | None, list[str]]:
    """Put the fence up; return what slurmctld knows behind it, and what went wrong. A node that got a job meanwhile is given back."""
    failed = ""
    for command in raise_commands(fence):
        rc, out, err = module.run_command(["timeout", "30", *command], environ_update=environment(slurm_conf))
        if rc != 0:
            failed = (
                f"`{' '.join(command)}` failed, so a job could start on a node that changes: {(err or out).strip()}"
            )
            break
    live = ask(module.run_command, slurm_conf)
    if live is None:
        nodes = f" Nodes {fold(fence.nodes)} may be drained with the reason `{OWNER}`: the next run gives them back."
        failed = failed or "slurmctld no longer answers. See that it runs, then run again."
        return None, [failed + (nodes if fence.nodes else "")]
    if failed:
        _lift(module, slurm_conf, live, fence.nodes, fence.partitions)
        return None, [failed]
    late = set(fence.nodes) & set(live.jobs_by_node())
    _lift(module, slurm_conf, live, late)
    used = {name for job in live.jobs for name in job.partitions}
    fence.nodes = [name for name in fence.nodes if name not in late]
    fence.partitions = [name for name in fence.partitions if name not in used]
    return live, []


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
    live = ask(module.run_command, directory / "slurm.conf")
    gone = leaving(conf, live, nodes, module.params["partitions"])
    wanted = [parse("\n".join(module.params[name])) for name in ("node_lines", "gres_lines")]
    plan = hardware.compare(conf, gres, live, *wanted) if wanted[0].lines else hardware.Plan()
    problems = find_problems(identity, conf, live, unasked)
    if live is None and not unasked:
        problems += unasked_problems(conf, *gone, list(plan.changes))
    if live is not None or not unasked:
        problems += guarded_problems(module.params["guarded"], conf, live)
    if module.params["read_back"]:
        problems = []  # nothing is about to change
    if live is None or problems:
        if live is not None and module.params["fence"] and not module.check_mode:
            _lift(module, directory / "slurm.conf", live, present(live))  # of a run that was killed
        return Answer(count=plan.to_count(), new=plan.new), problems
    fence, raised = Fence(present(live)), False
    if module.params["fence"] and not module.check_mode:
        held = holding(plan, live.jobs_by_node(), module.params["counted"])
        free = [name for name in (*gone[0], *plan.changes) if name not in held]
        up = targets(live, free, gone[1])
        if up.nodes or up.partitions:
            behind, problems = _raise(module, directory / "slurm.conf", up)
            if behind is None:
                return Answer(), problems
            live = behind
        fence, raised = Fence([*fence.nodes, *up.nodes], up.partitions), bool(up.nodes or up.partitions)
    kept = retain(conf, gres, *gone, live)
    jobs = live.jobs_by_node()
    if module.params["read_back"]:
        waits = held_earlier(plan, jobs, (directory / "slurm.conf").read_text(errors="replace"))
    else:
        waits = holding(plan, jobs, module.params["counted"])
    lines = hardware.kept_lines(plan, gres, waits)
    kept.slurm += lines[0]
    kept.gres += lines[1]
    changing = hardware.grouped(plan, waits, jobs)
    for note in leaving_notes(kept, live) + changing_notes(changing):
        module.warn(note)
    return Answer(kept, changing, plan.to_count(), plan.new, fence, raised), []


def main() -> None:
    """Run the module."""
    guarded: dict[str, Any] = {name: {"type": "str", "required": True} for name in ("option", "value", "place")}
    guarded["lowered"] = {"type": "bool", "default": False}
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
            "fence": {"type": "bool", "default": False},
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
    module.exit_json(changed=answer.raised, configured=configured, **answer.facts())


if __name__ == "__main__":
    main()
