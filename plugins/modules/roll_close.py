#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roll_close
short_description: Compare Slurm with what a roll finished, and end it
version_added: 0.2.0
description:
  - Reads the state of each node of the plan, and what this run did on it. Writes into the reasons of nodes that stay drained why they do.
  - Releases the record of the run. An unfinished run keeps its name, and the next call continues it.
  - Removes the maintenance reservation of a finished run, also if this call did not use it. With a limit a reservation of other nodes
    stays, and so does the name of the run.
  - Fails if a node failed or did not answer, and, with C(roll_waiting_fails), if one waits.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node and calls modules on the controller.}
  check_mode: {support: full, description: It reports.}
"""

EXAMPLES = r"""
- name: Report the outcome of each node
  bedplate.cluster.roll_close:
  delegate_to: "{{ groups.slurm_controllers[0] }}"
  run_once: true
"""

RETURN = r"""
run: {description: The name of the run., type: str, returned: always}
nodes:
  description: The nodes that are not done.
  type: dict
  returned: always
  contains:
    outcome: {description: "V(done), V(waiting), V(left), V(failed), V(unreachable).", type: str}
    why: {description: Why it is not done., type: str}
    jobs: {description: Ids of the jobs that it waits for., type: list, elements: str}
    parts: {description: What was pending., type: str}
    drained: {description: Whether this run has it out of service now., type: bool}
    hours: {description: For how many hours this run has or had it out of service., type: float}
outcomes: {description: "The same, outcome to nodes as a hostlist.", type: dict, returned: always}
stopped: {description: "Why no further batch began, or empty.", type: str, returned: always}
hours: {description: Node-hours out of service., type: float, returned: always}
"""
