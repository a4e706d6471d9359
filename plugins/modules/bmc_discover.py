#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_discover
short_description: Compare the machines at the BMC addresses with the record
version_added: 0.2.0
description:
  - Reads the machine at each declared BMC address by Redfish, and compares it with the record of machines beside the cluster file.
  - A machine at the address of another, a machine with other values than the record, a machine that is not on record, and a BMC that does
    not answer are findings, and the task fails. An answer never overwrites a recorded value.
  - With the variable C(bmc_record) new values are written into the record, and a certificate is trusted at first contact. Without it and
    without C(provision.bmc.ca) in the cluster file, a BMC without a recorded certificate receives no credential.
  - The accounts are the secrets C(bmc/NODE) and C(bmc_factory), each C(USER:PASSWORD) on one line.
  - It has no options. The variables C(bmc_*) are in docs/reference/playbooks.md.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node alone.}
  check_mode: {support: full, description: "It reads, predicts the record, and writes no file."}
  diff_mode: {support: full, description: It shows the record.}
"""

EXAMPLES = r"""
- name: Compare BMCs with the record of machines
  bedplate.cluster.bmc_discover:
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
counts: {description: "Number of BMCs, by state.", type: dict, returned: always, sample: {found: 62, missing: 1, swapped: 2}}
report: {description: "Path of the report without its suffix, .json or .xml.", type: str, returned: always}
"""
