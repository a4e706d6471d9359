#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Find the leaving nodes and partitions that still have jobs in a running Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_in_use
short_description: Find what must stay in slurm.conf because jobs still use it
version_added: 0.1.0
description:
  - Compares the nodes and partitions in force, in slurm.conf and all it includes and in slurmctld, with the desired ones. For
    leaving ones, reads their jobs from Slurm, and returns the lines that keep these jobs alive until they end. A job that
    waits for a node by name needs it too.
  - Compares O(node_lines) and O(gres_lines) with the lines in force. Slurm ends the jobs of a node whose hardware changes, so a node
    with jobs keeps the lines that it has; so does a node that is not in O(counted).
  - Fails if slurmctld would lose its jobs or not start under the desired name and state directory, and if an option of O(guarded)
    would change while jobs run.
  - Changes nothing, except with O(fence), and runs in check mode. If it fails, it releases the nodes and partitions of a run that was
    killed more than ten minutes ago.
  - Nodes and partitions of another run, drained or closed less than ten minutes ago, stay so, with a warning. With O(fence)
    it is a failure, if this run changes a node or partition that could get a job.
  - If slurmctld does not answer and the desired StateSaveLocation has no jobs, slurmctld would start without a job and end all jobs
    on the nodes. RV(count) has all desired nodes then, which know their jobs.
  - A host without slurm.conf keeps no lines. If nodes or partitions leave and slurmctld does not answer, the module fails
    unless O(unasked) is true, since their jobs are unknown.
options:
  nodes:
    description: The desired nodes, as a Slurm hostlist.
    type: str
    required: true
  partitions:
    description: The names of the desired partitions.
    type: list
    elements: str
    required: true
  cluster:
    description: >-
      The desired C(ClusterName). With jobs it must be the one in force; and the state directory must not belong to another cluster.
    type: str
    required: true
  state_save_location:
    description: >-
      The desired C(StateSaveLocation). With jobs it must be the one in force, or, while slurmctld is stopped, where the state has been
      moved to.
    type: path
    required: true
  slurmd_spool_dir:
    description: The desired C(SlurmdSpoolDir). With running jobs it must be the one in force. Empty is not compared.
    type: str
    default: ''
  controllers:
    description: The desired controllers. No other machine may still run slurmctld. Empty is not compared.
    type: list
    elements: str
    default: []
  node_lines:
    description: The desired NodeName lines. Empty is not compared.
    type: list
    elements: str
    default: []
  gres_lines:
    description: The desired lines of gres.conf.
    type: list
    elements: str
    default: []
  counted:
    description:
      - The nodes, as a Slurm hostlist, whose hardware matches the desired lines in M(bedplate.cluster.slurm_node_hardware).
        All other nodes whose hardware changes keep their lines.
      - Left out before anything was counted; then only jobs keep a line.
    type: str
  guarded:
    description: Options whose change ends running jobs, with the desired value and its place in the cluster file.
    type: list
    elements: dict
    default: []
    suboptions:
      option: {description: The option of slurm.conf., type: str, required: true}
      value: {description: The desired value. Empty is Slurm's own default., type: str, required: true}
      place: {description: Where it is stated., type: str, required: true}
      lowered: {description: Whether only a lower number ends jobs., type: bool, default: false}
  fence:
    description: >-
      Drain the idle nodes, and close the idle partitions, that will change or leave, and read the jobs again, so that no job starts
      there before M(bedplate.cluster.slurm_fence) releases them. Unchanged nodes stay in service. Not in check mode.
    type: bool
    default: false
  run:
    description: >-
      The name of this run, as RV(run) of an earlier call or of another controller, by which what it drains and closes is known as its own.
      Empty makes a new one.
    type: str
    default: ''
  read_back:
    description: Keep only the lines that an earlier run has kept, to compare with the files in force, and refuse nothing.
    type: bool
    default: false
  unasked:
    description: >-
      Continue if slurmctld does not answer. Jobs on leaving nodes and in leaving partitions are lost, and all jobs if StateSaveLocation is.
    type: bool
    default: false
  directory:
    description: Where slurm.conf and gres.conf are.
    type: path
    default: /etc/slurm
  state_directory:
    description: Where bedplate keeps the record of the partitions that it has closed, C(slurm_fence.json).
    type: path
    default: /var/lib/bedplate
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Find leaving nodes and partitions that still have jobs
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
count:
  description: >-
    Nodes, as a hostlist, that must answer first. Nodes with changed lines, for their hardware; without RV(has_state) all desired nodes,
    for their jobs.
  type: str
  returned: always
new: {description: "Nodes of RV(count) that are not in force yet, as a hostlist.", type: str, returned: always}
fence:
  description: Nodes and partitions that bedplate has drained and closed, in this run or in a run killed more than ten minutes ago.
  type: dict
  returned: always
  contains:
    nodes: {description: "Nodes that are drained with a reason of bedplate's own, as a hostlist.", type: str, sample: "gpu[01-02]"}
    partitions: {description: Partitions that take no new job., type: list, elements: str, sample: [debug]}
run: {description: The name of this run., type: str, returned: success, sample: 3f2a9c1b}
exposed:
  description: Whether a changing or leaving node or partition could still get a job. O(fence) prevents that.
  type: bool
  returned: always
up: {description: Controllers whose slurmctld answers C(scontrol ping)., type: list, elements: str, returned: always}
files:
  description: SHA-256 digests of the files in O(directory), of Slurm and of its Lua scripts.
  type: dict
  returned: always
  sample: {slurm.conf: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
compared:
  description: The same with whole paths, for O(bedplate.cluster.deploy#module:unchanged).
  type: dict
  returned: always
  sample: {/etc/slurm/slurm.conf: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
loaded: {description: Whether slurmctld runs slurm.conf as it is on disk., type: bool, returned: always}
has_state:
  description: >-
    Whether slurmctld knows its jobs, since it answers or the desired StateSaveLocation holds them. True with O(unasked) on a host with
    a slurm.conf.
  type: bool
  returned: always
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

import secrets
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.kept_lines import Answer
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.records_in_use import find


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
            "run": {"type": "str", "default": ""},
            "read_back": {"type": "bool", "default": False},
            "unasked": {"type": "bool", "default": False},
            "directory": {"type": "path", "default": "/etc/slurm"},
            "state_directory": {"type": "path", "default": "/var/lib/bedplate"},
        },
        supports_check_mode=True,
    )
    module.params["run"] = module.params["run"] or secrets.token_hex(4)
    try:
        answer, problems = find(module)
    except (HostlistError, OSError) as error:
        answer, problems = Answer(), [f"the configuration in {module.params['directory']} cannot be read: {error}"]
    if problems:
        module.fail_json(msg="\n".join(problems))
    directory = Path(module.params["directory"])
    compared = {str(directory / name): digest for name, digest in answer.files.items()}
    configured = (directory / "slurm.conf").exists()
    facts = {**answer.facts(), "configured": configured, "compared": compared, "run": module.params["run"]}
    module.exit_json(changed=answer.raised, **facts)


if __name__ == "__main__":
    main()
