#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recover_plan
short_description: Begin a recovery of nodes, and plan it
version_added: 0.2.0
description:
  - With O(step=begin) it reads Slurm on the controller that it is delegated to, and the verdicts on the host keys of the nodes of the play.
    Fails with all reasons at once if a node has a job, Slurm does not have it, its host key is not proved, or a roll or another recovery
    works on nodes. Then it holds the record of the run (M(bedplate.cluster.run_record)).
  - With O(step=plan) it reads how the nodes differ from the cluster file, and returns which nodes are recovered. A verified node in service
    needs nothing. A node that a person or another run has out of service is recovered, and stays out of service.
options:
  step:
    description: What it does.
    type: str
    choices: [begin, plan]
    default: plan
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node and calls modules on the controller.}
  check_mode: {support: full, description: "It plans, and holds no record."}
"""

EXAMPLES = r"""
- name: Plan the recovery
  bedplate.cluster.recover_plan:
  delegate_to: "{{ groups.slurm_controllers[0] }}"
  run_once: true
  register: plan
"""

RETURN = r"""
run: {description: The name of the run., type: str, returned: success}
hosts: {description: Nodes to recover., type: list, elements: str, returned: with O(step=plan)}
parts: {description: Why each of them is recovered., type: dict, returned: with O(step=plan)}
kept: {description: Nodes that others have out of service and keep., type: dict, returned: with O(step=plan)}
done: {description: Nodes with nothing to do., type: dict, returned: with O(step=plan)}
stopped: {description: "Nodes on which a comparison failed, and why.", type: dict, returned: with O(step=plan)}
lost: {description: Nodes that did not answer., type: dict, returned: with O(step=plan)}
to_drain: {description: Nodes to drain as a hostlist., type: str, returned: with O(step=plan)}
choices: {description: "The variables of the recovery, without C(recover_).", type: dict, returned: success}
"""
