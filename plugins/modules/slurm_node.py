#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drain, reboot and resume nodes through Slurm, and leave alone what a person has drained."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node
short_description: Drain, reboot and resume nodes of Slurm without losing a job
version_added: 0.2.0
description:
  - Drains nodes with a reason that names the run, waits until they have no job, reboots them through Slurm, and resumes them.
  - >-
    The reason is C(bedplate:<kind>:<run>: <why> [<sum>]). It alone shows who owns a drained node. A node with any other reason, or with
    this one edited, belongs to a person or to Slurm, and stays as it is. Reasons are read again right before each verb.
  - Runs on a controller, as root or C(SlurmUser). One call works on all nodes, so a thousand cost as much as one.
  - Works with Slurm 22.05 to 26.05. Fails without a change if slurmctld does not answer for a minute.
options:
  nodes:
    description: The nodes, as a Slurm hostlist.
    type: str
    required: true
  state:
    description:
      - V(drained) takes nodes out of service and waits for their jobs. V(rebooted) reboots what this run has drained, by a plain
        C(scontrol reboot), so that the node returns drained. V(resumed) resumes what this run has drained, a node whose slurmd does
        not answer only when it does. V(noted) writes another text into the reason of what this run has drained.
      - A node that has registered with less than slurm.conf has is neither rebooted nor resumed, but V(failed).
      - Left out, the module only reports.
    type: str
    choices: [drained, rebooted, resumed, noted]
  kind:
    description: What the run does.
    type: str
    choices: [edit, roll, upgrade, recover, provision, health, burnin]
    default: roll
  run:
    description: The name of the run. Needed with O(state).
    type: str
  why:
    description: The text of the reason, for people. Needed with O(state=drained) and O(state=noted).
    type: str
    default: ''
  deadline:
    description: Seconds that the call may take. Nodes that are not done by then are reported, and a later call continues with them.
    type: int
    default: 0
  patience:
    description: With O(state=drained), seconds that nodes without jobs wait for the others before the call returns.
    type: int
    default: 0
  idle_patience:
    description: >-
      With O(state=drained), seconds that the call waits while none of its nodes is without jobs. Left out, it waits until O(deadline).
    type: int
  limits:
    description: With O(state=drained), how many nodes of a group may be out of service, for any reason.
    type: list
    elements: dict
    default: []
    suboptions:
      where: {description: "The name of the group, for messages.", type: str, required: true}
      nodes: {description: Its nodes as a hostlist., type: str, required: true}
      most: {description: At most this many of them are out., type: int, required: true}
  apart:
    description: With O(state=drained), groups in which no node is drained while a run of O(kind) has one outside of O(nodes) drained.
    type: list
    elements: dict
    default: []
    suboptions:
      where: {description: "The name of the group, for messages.", type: str, required: true}
      nodes: {description: Its nodes as a hostlist., type: str, required: true}
  reserved:
    description: Also drain nodes that are in an active reservation.
    type: bool
    default: false
  reservation:
    description: The name of the run's own reservation. Its nodes are drained.
    type: str
    default: ''
  of_slurm:
    description: >-
      With O(state=drained), also drain nodes that Slurm itself has out of service, such as down because they did not answer.
    type: bool
    default: false
  watched:
    description:
      - With O(state=drained), groups of nodes that the run has resumed. While health has more than C(most) nodes of a group out of service,
        no node is drained, and the call ends.
      - A node counts if its reason is one of the kind V(health), and the reason is as the limiter wrote it.
    type: list
    elements: dict
    default: []
    suboptions:
      where: {description: "The name of the group, for messages.", type: str, required: true}
      nodes: {description: Its nodes as a hostlist., type: str, required: true}
      most: {description: At most this many of them are out of service for health., type: int, required: true}
  settle:
    description: With O(state=drained), seconds before the first drain, in which health judges O(watched).
    type: int
    default: 0
  directory:
    description: Where slurm.conf is.
    type: path
    default: /etc/slurm
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It predicts the outcome of each node.}
"""

EXAMPLES = r"""
- name: Take two nodes out of service, and wait an hour for their jobs
  bedplate.cluster.slurm_node: {nodes: "gpu[01-02]", state: drained, run: 3f2a9c1b, why: "driver 580.95.05", deadline: 3600}
  register: drained

- name: Reboot what is drained
  bedplate.cluster.slurm_node: {nodes: "{{ drained.outcomes.drained }}", state: rebooted, run: 3f2a9c1b, deadline: 1800}
"""

RETURN = r"""
nodes:
  description: The outcome of each node.
  type: dict
  returned: success
  contains:
    outcome:
      description: >-
        V(drained), V(draining) with jobs at the deadline, V(limited) where O(limits) or O(apart) allow no more nodes, V(rebooted),
        V(silent) for a node that Slurm cannot reboot because its slurmd does not answer, V(resumed), V(held) for a node that was left
        alone, or V(failed).
      type: str
    state: {description: "States that Slurm reports, and the reason.", type: str, sample: DRAIN+IDLE}
    why: {description: Why it was left alone or failed., type: str, sample: "in the active reservation course"}
    jobs: {description: Ids of the jobs that hold it., type: list, elements: str}
    changed: {description: Whether this call has changed it., type: bool}
    kind: {description: "The kind of the run of bedplate that has it out of service, or empty.", type: str}
    run: {description: "That run, or empty.", type: str}
    text: {description: "The text of its reason, or empty.", type: str, sample: "driver 580.95.05, reboot"}
    since: {description: "When it took the node out of service, in UTC, or empty.", type: str, sample: "2026-11-25T22:18:50"}
    free_in: {description: "Seconds until the time limits of its jobs end, null if a job has no limit.", type: int}
    reservations: {description: Names of the active reservations that have it., type: list, elements: str}
    by_slurm: {description: "Whether Slurm itself has it out of service, without a decision of a person or a run.", type: bool}
halted:
  description: With O(state=drained), why O(watched) or O(settle) forbid to begin with the nodes, or empty.
  type: str
  returned: success
sick:
  description: With O(state=drained), the nodes of O(watched) that health has out of service, and the texts of their reasons.
  type: dict
  returned: success
  sample: {gpu03: "gpu-count: 7 of 8 GPUs"}
now: {description: "The time of the controller, in UTC.", type: str, returned: success, sample: "2026-11-25T22:18:50"}
outcomes: {description: "The same, outcome to nodes as a hostlist.", type: dict, returned: success, sample: {drained: "gpu[01-02]"}}
"""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, expand
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import slurm_commands
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import KINDS, ROLL, written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.drain_nodes import Drain
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_states import SlurmSilentError, snapshot
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import (
    NodeResult,
    NodeVerb,
    Order,
    by_outcome,
    heard,
    report,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.note_reasons import Note
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.out_limits import Apart, Limit, Watch
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.reboot_nodes import Reboot
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.resume_nodes import Resume

VERBS: dict[str, type[NodeVerb]] = {"drained": Drain, "rebooted": Reboot, "resumed": Resume, "noted": Note}


def order(params: dict[str, Any]) -> Order:
    """Return the order of a task. Raises ValueError for a hostlist, a kind or a run that is not valid."""
    if params["state"]:
        written(params["kind"], params["run"] or "", params["why"])
    return Order(
        nodes=tuple(expand(params["nodes"])),
        kind=params["kind"],
        run=params["run"] or "",
        text=params["why"],
        deadline=params["deadline"],
        patience=params["patience"],
        idle_patience=params["idle_patience"],
        limits=tuple(Limit(one["where"], frozenset(expand(one["nodes"])), one["most"]) for one in params["limits"]),
        apart=tuple(Apart(one["where"], frozenset(expand(one["nodes"]))) for one in params["apart"]),
        reserved=params["reserved"],
        reservation=params["reservation"],
        of_slurm=params["of_slurm"],
        watched=tuple(Watch(one["where"], frozenset(expand(one["nodes"])), one["most"]) for one in params["watched"]),
        settle=params["settle"],
    )


def work(module: AnsibleModule, wanted: Order) -> tuple[dict[str, NodeResult], dict[str, Any]]:
    """Run the verb of the task, or report; return the results of the nodes, and what a drain reports of watched nodes."""
    watched: dict[str, Any] = {"halted": "", "sick": {}}
    slurm_conf = Path(module.params["directory"]) / "slurm.conf"
    if not module.params["state"]:
        return report(wanted.nodes, heard(lambda: snapshot(slurm_conf), wanted.nodes)), watched
    verb = VERBS[module.params["state"]](
        wanted,
        lambda: snapshot(slurm_conf),
        lambda argv: slurm_commands.change(argv, slurm_conf),
        module.check_mode,
    )
    found = verb.run()
    if isinstance(verb, Drain):
        watched = {"halted": verb.halted, "sick": verb.sick}
    return found, watched


def main() -> None:
    """Run the module."""
    group: dict[str, Any] = {"where": {"type": "str", "required": True}, "nodes": {"type": "str", "required": True}}
    counted = {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {**group, "most": {"type": "int", "required": True}},
    }
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "str", "required": True},
            "state": {"type": "str", "choices": list(VERBS)},
            "kind": {"type": "str", "choices": list(KINDS), "default": ROLL},
            "run": {"type": "str"},
            "why": {"type": "str", "default": ""},
            "deadline": {"type": "int", "default": 0},
            "patience": {"type": "int", "default": 0},
            "idle_patience": {"type": "int"},
            "limits": counted,
            "apart": {"type": "list", "elements": "dict", "default": [], "options": group},
            "reserved": {"type": "bool", "default": False},
            "reservation": {"type": "str", "default": ""},
            "of_slurm": {"type": "bool", "default": False},
            "watched": counted,
            "settle": {"type": "int", "default": 0},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        required_if=[("state", state, ["run"]) for state in VERBS]
        + [("state", state, ["why"]) for state in ("drained", "noted")],
        supports_check_mode=True,
    )
    try:
        found, watched = work(module, order(module.params))
    except (HostlistError, ValueError) as error:
        module.fail_json(msg=str(error))
    except SlurmSilentError as error:
        module.fail_json(msg=f"slurmctld does not answer, so nothing was changed or waited for any more: {error}")
    module.exit_json(
        changed=any(one.changed for one in found.values()),
        nodes={name: one.facts() for name, one in found.items()},
        outcomes=by_outcome(found),
        **watched,
        now=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S"),
    )


if __name__ == "__main__":
    main()
