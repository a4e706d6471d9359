#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_plan
short_description: Check which nodes may be installed, and verify their machines
version_added: 0.2.0
description:
  - Checks the names of C(provision_nodes) and C(provision_wipe), the record of machines, and the images on the provision host. All mistakes
    are in one failure, before any request to a BMC.
  - Reads how far each node is on the provision host. A node that is installed has nothing to do, unless C(provision_wipe) names it.
  - Reads each machine at its BMC - serial number, boot MAC, power, and whether it can boot the installer - and refuses what differs.
  - Holds the nodes on the provision host for this run until M(bedplate.cluster.provision_close), so that no other run drains, resumes or
    installs them. A node that another run holds is refused.
  - It changes nothing else. The variables are in docs/reference/playbooks.md.
options:
  slurm:
    description: Result of M(bedplate.cluster.slurm_node) without a C(state). A node that has a job, or is out of service for others, is
      refused before its BMC gets a request.
    type: dict
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: "It runs on the control node, and calls modules on the provision host that it is delegated to."}
  check_mode: {support: full, description: It holds no node.}
"""

EXAMPLES = r"""
- name: Verify the nodes
  bedplate.cluster.provision_plan:
  delegate_to: "{{ groups.provision_hosts | default(['localhost'], true) | first }}"
  run_once: true
"""

RETURN = r"""
work: {description: Nodes that begin or continue an order., type: list, elements: str, returned: always}
drain: {description: Nodes that Slurm must drain as a hostlist., type: str, returned: always}
why: {description: Text for the reason in Slurm., type: str, returned: always}
known: {description: Nodes that are installed., type: list, elements: str, returned: always}
digests: {description: 'Node to the digest of its order, different for each other order.', type: dict, returned: always}
unfit: {description: 'Refused nodes for which an earlier run has left an order to close, with the reason.', type: dict, returned: always}
resume: {description: Refused nodes to which no run has done more than to drain them., type: list, elements: str, returned: always}
refused: {description: Node to the reason why it is not installed., type: dict, returned: always}
"""
