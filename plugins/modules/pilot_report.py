#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write the redacted report of a pilot run; the action plugin of the same name does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pilot_report
short_description: Write the redacted report of a pilot run
version_added: 0.2.0
description:
  - Writes one JSON file from the results of M(bedplate.cluster.node_report) with O(bedplate.cluster.node_report#module:software), with an
    entry for each kind of node, what was expected, what was found, what differs, and the raw texts that the readers read.
  - Names of hosts, domains and users, addresses, MAC addresses, GUIDs, serial numbers, UUIDs, tokens and passwords are replaced by labels.
    Equal values have equal labels within one file; the key of the labels is random and is not written.
  - Writes no file if the redacted text still has a known name or a value of one of these forms.
  - Connects to no machine, and changes nothing else.
options:
  registered:
    description: The name that the task with M(bedplate.cluster.node_report) registers.
    type: str
    required: true
  file:
    description: The file on the control node; mode 0600. It is not written in check mode.
    type: path
    required: true
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: The report is made and checked. O(file) is not written.}
"""

EXAMPLES = r"""
- name: Write the report
  bedplate.cluster.pilot_report:
    registered: pilot_node
    file: /var/tmp/site.pilot.json
  run_once: true
"""

RETURN = r"""
msg: {description: 'Numbers of nodes and differences, and the file.', type: str, returned: always}
nodes: {description: How many nodes the play has., type: int, returned: always}
differences: {description: How many differences the file has., type: int, returned: always}
not_read: {description: How many nodes did not answer or could not be read., type: int, returned: always}
"""
