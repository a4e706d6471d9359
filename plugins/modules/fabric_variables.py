#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_variables
short_description: Refuse variables of the command line that no playbook of the fabric takes
version_added: 0.1.0
description:
  - Ansible ignores a misspelt variable, so C(-e fabric_failon=never) would do nothing. This action fails with every variable of the
    command line that begins with C(fabric_) and is missing in docs/fabric.md.
  - Variables of inventories are not checked. It runs on the control node, connects to no machine, and changes nothing.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It changes nothing.}
seealso:
  - module: bedplate.cluster.role_variables
"""

EXAMPLES = r"""
- name: Refuse misspelt variables
  bedplate.cluster.fabric_variables:
# => fabric_failon is not a variable of the playbooks of the fabric; did you mean fabric_fail_on?
"""

RETURN = r"""
mistakes:
  description: One line for each unknown variable.
  type: list
  elements: str
  returned: always
"""
