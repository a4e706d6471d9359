#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_install
short_description: Install nodes through their BMCs
version_added: 0.2.0
description:
  - Runs twice, since Slurm is read once more between O(until=armed) and the resets.
  - Opens an order with a one-time token for each node, makes its medium, inserts it, sets the one-time boot, and resets the machine once
    both are read back.
  - Follows the orders until the installer has reported and the machine is off. Then it removes medium, override, token and ISO, turns the
    machine on, and waits until SSH answers with the host key of the order.
  - A refused node has its order closed and is not turned on. The others continue.
  - Each state is on the provision host before the next step begins, so a run that was killed is continued by the next one.
options:
  work:
    description: Nodes, as M(bedplate.cluster.provision_plan) returns them.
    type: list
    elements: str
    default: []
  slurm:
    description: Result of M(bedplate.cluster.slurm_node) with C(state=drained). Nodes that it does not show as drained are refused.
      After O(until=armed) it is the result without a C(state), read right before the resets.
    type: dict
    default: {}
  digests:
    description: Node to the digest of its order, as M(bedplate.cluster.provision_plan) returns them. A node with another one by now, and
      without a claim, is refused.
    type: dict
    default: {}
  unfit:
    description: Node to the reason why it is refused, as M(bedplate.cluster.provision_plan) returns them. Their orders are closed.
    type: dict
    default: {}
  until:
    description: >-
      V(armed) opens the orders and prepares the machines, and resets none. V(known) does the rest, for nodes that are armed or beyond;
      a node that is not armed any more is refused.
    type: str
    choices: [armed, known]
    default: known
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: "It runs on the control node, and calls modules on the provision host that it is delegated to."}
  check_mode: {support: full, description: It predicts which nodes would be installed.}
"""

EXAMPLES = r"""
- name: Arm the orders of the nodes
  bedplate.cluster.provision_install:
    work: "{{ planned.work }}"
    slurm: "{{ drained }}"
    until: armed
  delegate_to: "{{ groups.provision_hosts | default(['localhost'], true) | first }}"
  run_once: true

- name: Install the nodes
  bedplate.cluster.provision_install:
    work: "{{ planned.work }}"
    slurm: "{{ read_again }}"
  delegate_to: "{{ groups.provision_hosts | default(['localhost'], true) | first }}"
  run_once: true
"""

RETURN = r"""
results: {description: 'Node to C(state) and C(reason).', type: dict, returned: always}
refused: {description: Node to the reason why it is not installed., type: dict, returned: always}
resume: {description: 'Nodes that are installed, and nodes to which nothing was done.', type: list, elements: str, returned: always}
"""
