#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: provision_close
short_description: End a run that installs nodes, and report it
version_added: 0.2.0
description:
  - Lets go of the nodes, so that the next run begins again where one is done, and continues where one is not.
  - Fails if a node was not installed, or if Slurm did not say whether a node was resumed.
options:
  refused:
    description: Node to the reason why it is not installed.
    type: dict
    default: {}
  resume:
    description: Nodes for the resume in Slurm. If it did not answer, the nodes of C(provision_without_slurm) do not fail.
    type: list
    elements: str
    default: []
  slurm:
    description: Result of M(bedplate.cluster.slurm_node) with C(state=resumed).
    type: dict
    default: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: "It runs on the control node, and calls modules on the provision host that it is delegated to."}
  check_mode: {support: full, description: It reports.}
"""

EXAMPLES = r"""
- name: Report the nodes
  bedplate.cluster.provision_close:
    refused: "{{ installed.refused }}"
    resume: "{{ installed.resume }}"
    slurm: "{{ resumed }}"
  delegate_to: "{{ groups.provision_hosts | default(['localhost'], true) | first }}"
  run_once: true
"""

RETURN = r"""
failed_nodes: {description: Nodes that are not installed or not resumed as a hostlist., type: str, returned: always}
"""
