#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bmc_commission
short_description: Give the BMCs of named nodes their own account, a certificate, and NTP
version_added: 0.2.0
description:
  - Gives each BMC of C(bmc_nodes) an own administrator with a generated password, and changes the factory's password. By the variables of
    the run it sets NTP servers, turns IPMI over LAN off, and installs a certificate of the site's CA. Every write is read back, a password
    by a login.
  - A BMC whose certificate is neither the recorded one nor of the CA receives no password. A machine whose serial number is not the one on
    record is refused before the first write.
  - The password is in the secrets directory before the BMC has it, so a run that is killed is continued by the next one.
  - It has no options. The variables C(bmc_*) are in docs/reference/playbooks.md.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node alone.}
  check_mode: {support: full, description: It sends GETs alone besides opening and closing its sessions.}
  diff_mode: {support: full, description: It shows each step that changes.}
"""

EXAMPLES = r"""
- name: Set account, certificate, NTP and IPMI of BMCs
  bedplate.cluster.bmc_commission:
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
counts: {description: "Number of BMCs, by state.", type: dict, returned: always, sample: {commissioned: 62, failed: 2}}
failed_nodes: {description: Nodes with a step that failed or was not begun as a hostlist., type: str, returned: always}
report: {description: "Path of the report without its suffix, .json or .xml.", type: str, returned: always}
"""
