#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Print the tokens of nodes that boot from the network; the action plugin of the same name does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_tokens
short_description: Print the kernel command line of nodes that boot from the network
version_added: 0.2.0
description:
  - Prints the tokens that a boot server must pass to the kernel of the nodes of the play whose profile has C(boot=network). Nodes of one
    profile with equal tokens are one group.
  - The tokens follow from the profile and the variables of the role node_tuning. Connects to no machine and changes nothing, except that
    it writes O(file) on the control node.
options:
  file:
    description:
      - A file on the control node for the groups as JSON. Empty writes none.
      - Nothing is written in check mode, nor if no node of the play boots from the network.
    type: path
    default: ''
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: The text is printed and O(file) is not written; C(changed) says whether it would differ.}
"""

EXAMPLES = r"""
- name: Print the tokens
  bedplate.cluster.boot_tokens:
    file: /srv/tftp/bedplate-tokens.json
  run_once: true
# => groups: [{profile: h100, nodes: "gpu[01-32]", tokens: "iommu=pt transparent_hugepage=madvise"}]
"""

RETURN = r"""
groups:
  description: Groups of nodes, with C(profile), C(nodes) as a hostlist and C(tokens) as one line.
  type: list
  elements: dict
  returned: always
"""
