#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recover_guids
short_description: Compare the GUIDs of a node with the record beside the cluster file
version_added: 0.2.0
description:
  - Reads the InfiniBand adapters of the node (M(bedplate.cluster.hca_facts)) and compares their GUIDs with the record beside the cluster
    file. Fails with old and new GUIDs of each adapter if they differ.
  - With the variable C(recover_guids=accept) it writes them there, as one atomic change of the lines of this node. A GUID that is on record
    for another node is refused in any case.
  - Does nothing without InfiniBand in the cluster file, and for a node without NICs.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It reads on the node and writes on the control node.}
  check_mode: {support: full, description: It predicts.}
"""

EXAMPLES = r"""
- name: Compare GUIDs with the record
  bedplate.cluster.recover_guids:
# => gpu01 mlx5_0: node GUID 0x0002c90300000200 -> 0x0002c90300000500
"""

RETURN = r"""
changes: {description: Adapters with other GUIDs than recorded., type: list, elements: str, returned: always}
accepted: {description: Whether they were written., type: bool, returned: always}
"""
