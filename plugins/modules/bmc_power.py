#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_power
short_description: Turn named nodes on and off through their BMCs
version_added: 0.2.0
description:
  - Reaches the power state of the variable C(power) on the nodes of C(power_nodes), by Redfish or IPMI, and reads it back.
  - V(off) and V(cycle) are refused for all named nodes if Slurm has a job on one of them, if one is not drained by a person or by bedplate,
    or if Slurm does not answer. Nodes that Slurm does not have are allowed.
  - A machine whose serial number is not the one on record is refused. IPMI does not show a serial number.
  - It has no options. The variables C(power), C(power_nodes) and C(power_graceful) are in docs/reference/playbooks.md.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: "It runs on the control node, and reads Slurm on the controller that it is delegated to."}
  check_mode: {support: full, description: It sends GETs alone besides opening and closing its sessions.}
  diff_mode: {support: full, description: It shows the power state of each node that changes.}
"""

EXAMPLES = r"""
- name: Set the power of the named nodes
  bedplate.cluster.bmc_power:
  delegate_to: "{{ groups.slurm_controllers | default(['localhost'], true) | first }}"
  run_once: true
"""

RETURN = r"""
failed_nodes: {description: Nodes without the power state as a hostlist., type: str, returned: if the nodes were not refused}
"""
