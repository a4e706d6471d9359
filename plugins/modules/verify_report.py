#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collect the findings of all machines of a play, and fail last."""

from __future__ import annotations

DOCUMENTATION = r"""
module: verify_report
short_description: Collect the findings of all machines of a play, and fail last
version_added: 0.1.0
description:
  - Collects what M(bedplate.cluster.node_state) found on each machine of the play. A machine that is off is one finding. What is the same
    on several machines is one line.
  - Fails when a finding is an error. Warnings and notices are shown as warnings.
  - What controllers report of Slurm as a whole is taken from the first controller whose Slurm answers.
  - Connects to no machine and changes nothing, except that it writes O(file) on the control node.
options:
  registered:
    description: The name that the task with M(bedplate.cluster.node_state) registers.
    type: str
    required: true
  file:
    description: A file on the control node for all findings as JSON. Empty writes none.
    type: path
    default: ''
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "Errors are warnings there, since nothing was applied."}
"""

EXAMPLES = r"""
- name: Report all findings
  bedplate.cluster.verify_report:
    registered: node_state
    file: /var/tmp/findings.json
  run_once: true
# => fails:
# => 2 differences on 5 machines
# => ERROR gpu[01-04]: sysctl vm.swappiness: expected 10, found 60, overridden by /etc/sysctl.d/99-site.conf:3; remove the line there
# => ERROR gpu02: machine: expected to answer, found Failed to connect to the host via ssh; switch it on, or see why SSH fails
"""

RETURN = r"""
msg: {description: 'The verdict, and the errors, a line each.', type: str, returned: always}
machines: {description: How many machines the play has., type: int, returned: always}
findings:
  description: All findings, one for each machine. Fields as M(bedplate.cluster.node_state) returns them, with the machine filled in.
  type: list
  elements: dict
  returned: always
"""
