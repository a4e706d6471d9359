#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_compare
short_description: Compare firmware or BIOS of machines with the profiles of the site
version_added: 0.2.0
description:
  - Reads firmware or BIOS of each machine whose profile names a file C(firmware/NAME.yml) or C(bios/NAME.yml) beside the cluster file, and
    compares. A machine whose serial number is not the one on record is not compared.
  - For firmware it prints in which waves the nodes could be updated. Nothing is written to a machine.
options:
  subject:
    description: What it compares.
    type: str
    choices: [bios, firmware]
    required: true
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node alone.}
  check_mode: {support: full, description: "It reads the same, and writes no report."}
"""

EXAMPLES = r"""
- name: Compare firmware with the profiles
  bedplate.cluster.bmc_compare:
    subject: firmware
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
report: {description: "Path of the report without its suffix, .json or .xml.", type: str, returned: always}
"""
