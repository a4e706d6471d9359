#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: recover_close
short_description: Compare Slurm with what a recovery finished, and end it
version_added: 0.2.0
description:
  - Reads the state of each node of the plan, and what this run did on it. Writes into the reasons of nodes that stay drained why they do.
  - Resumes nodes on which a job began right before they were drained.
  - Releases the record of the run. A run with drained nodes keeps its name, and the next call continues it.
  - Fails if a node was not recovered.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node and calls modules on the controller.}
  check_mode: {support: none, description: A run in check mode has no closing play.}
"""

EXAMPLES = r"""
- name: Report the outcome of each node
  bedplate.cluster.recover_close:
  delegate_to: "{{ groups.slurm_controllers[0] }}"
  run_once: true
"""

RETURN = r"""
run: {description: The name of the run., type: str, returned: always}
nodes:
  description: The nodes that are not in service.
  type: dict
  returned: always
  contains:
    outcome: {description: "V(left), V(failed) or V(unreachable).", type: str}
    why: {description: Why it is not in service., type: str}
    drained: {description: Whether this run has it out of service now., type: bool}
outcomes: {description: "Outcome to nodes as a hostlist, V(done) included.", type: dict, returned: always}
"""
