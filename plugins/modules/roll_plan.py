#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roll_plan
short_description: Plan a roll over the nodes of a play, and begin it
version_added: 0.2.0
description:
  - Reads what the roles' tasks registered in check mode on the hosts of the play, and what Slurm reports of all nodes, and returns the
    batches in which nodes are drained.
  - Holds the record of the run (M(bedplate.cluster.run_record)) on the controller that it is delegated to, if there is work. Fails if
    another roll holds it.
  - How it rolls is read from the variables C(roll_*), such as C(roll_percent); docs/reference/playbooks.md has them.
  - With C(roll_plan_file) check mode writes the plan there, and a run refuses changes beyond it.
options:
  topology_conf:
    description: The text of a site's own topology.conf.
    type: str
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node and calls modules on the controller.}
  check_mode: {support: full, description: "It plans, and holds no record."}
"""

EXAMPLES = r"""
- name: Plan the roll
  bedplate.cluster.roll_plan:
  delegate_to: "{{ groups.slurm_controllers[0] }}"
  run_once: true
  register: roll
"""

RETURN = r"""
run: {description: The name of the run., type: str, returned: success}
hosts: {description: "Nodes to drain, in the order of their batches.", type: list, elements: str, returned: success}
serial: {description: Sizes of the batches., type: list, elements: int, returned: success}
canaries: {description: Nodes that prove the change for their profiles., type: list, elements: str, returned: success}
open: {description: Nodes whose changes need no drain., type: list, elements: str, returned: success}
left: {description: "Nodes that are in no batch, and why.", type: dict, returned: success}
problems: {description: "Nodes that could not be compared, and why.", type: dict, returned: success}
not_compared: {description: "The same nodes with their outcomes, for the report of a preview.", type: dict, returned: success}
pending: {description: "What is pending, by node.", type: dict, returned: success}
limits: {description: For O(bedplate.cluster.slurm_node#module:limits)., type: list, elements: dict, returned: success}
reservation: {description: "The name of its reservation, or empty.", type: str, returned: success}
choices: {description: "The variables of the roll, without C(roll_).", type: dict, returned: success}
until: {description: "When the last batch may begin, in seconds since 1970.", type: float, returned: success}
settle: {description: Seconds in which health judges canaries., type: int, returned: success}
apart: {description: For O(bedplate.cluster.slurm_node#module:apart)., type: list, elements: dict, returned: success}
"""
