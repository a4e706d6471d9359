#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Print the hardware of all machines of a play as profiles of the cluster file; the action plugin of the same name does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: profile_report
short_description: Print the hardware of all machines of a play as profiles of the cluster file
version_added: 0.2.0
description:
  - Prints the section C(profiles) of a cluster file from the results of M(bedplate.cluster.node_report), one profile for all machines with
    equal hardware, with comments about what a person must decide. A comment before each further profile lists how it differs from the
    first.
  - A machine that did not answer is a comment at the end.
  - Connects to no machine and changes nothing, except that it writes O(file) on the control node.
options:
  registered:
    description: The name that the task with M(bedplate.cluster.node_report) registers.
    type: str
    required: true
  file:
    description: A file on the control node for the same text. Empty writes none. Nothing is written in check mode.
    type: path
    default: ''
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: The text is printed and O(file) is not written; C(changed) says whether it would differ.}
"""

EXAMPLES = r"""
- name: Print the profiles
  bedplate.cluster.profile_report:
    registered: node_report
  run_once: true
"""

RETURN = r"""
profiles: {description: The text., type: str, returned: always}
machines: {description: How many machines were read., type: int, returned: always}
"""
