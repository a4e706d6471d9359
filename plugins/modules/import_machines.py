#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: import_machines
short_description: Import serial numbers, MACs and system disks of machines from another system
version_added: 0.2.0
description:
  - Reads machines from CSV, NetBox, MAAS, Warewulf or Ironic, finds them in the cluster file by name, else by a serial number on record,
    and writes new values to C(<site>.machines.json) beside the cluster file, in one step.
  - A value that differs from the recorded one is a finding, and is not written; O(replace) names the machines for which it is.
  - With any mistake of the source or of the record, nothing is written.
  - It runs on the control node and connects to no machine of the cluster.
options:
  cluster_file:
    description: Path of the cluster file.
    type: path
    required: true
  source:
    description:
      - Kind and place, such as V(csv:machines.csv). Kinds are V(csv), V(netbox), V(maas), V(warewulf) and V(ironic).
      - Several files have commas between them, such as V(netbox:devices.json,interfaces.json).
      - NetBox, MAAS and Ironic are also read from their API, such as V(netbox:https://netbox.example.org/?site=west).
    type: str
    required: true
  token_file:
    description: File with the token of the API, the API key of MAAS, or user:password of a standalone Ironic.
    type: str
    default: ""
  ca:
    description: File with the certificates (PEM) that the server is verified with; when empty, the system's.
    type: str
    default: ""
  boot_interface:
    description: Patterns of names of the boot NIC in NetBox, the best first, such as V(eno1,enp*).
    type: str
    default: ""
  replace:
    description: Machines whose recorded values are replaced, as a hostlist.
    type: str
    default: ""
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It reads the source and reports what it would write.}
  diff_mode: {support: full, description: The lines of the record.}
"""

EXAMPLES = r"""
- name: Import the machines
  bedplate.cluster.import_machines:
    cluster_file: "{{ bedplate_cluster_file }}"
    source: csv:machines.csv
  register: imported
# => imported.table: ["node    key     recorded  found", "gpu001  serial  -         S462117X3B01  new (machines.csv:2)"]
"""

RETURN = r"""
msg: {description: One line for a reader., type: str, returned: success}
lines: {description: "RV(msg), RV(table), RV(notes) and RV(unmapped).", type: list, elements: str, returned: success}
table:
  description: "A line for each value that is not recorded already: node, key, recorded, found."
  type: list
  elements: str
  returned: success
notes: {description: Keys of a machine that the source lacks., type: list, elements: str, returned: success}
unmapped: {description: Machines of the source that are not of the cluster., type: list, elements: str, returned: success}
missing: {description: "Nodes that the source lacks, as a hostlist.", type: str, returned: success}
findings:
  description: "Values that differ from recorded ones, a line each. They were not written."
  type: list
  elements: str
  returned: success
"""
