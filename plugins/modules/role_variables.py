#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: role_variables
short_description: Find wrong variables and secrets of the inventory, and mistakes in the plan of the fabric
version_added: 0.1.0
description:
  - Ansible ignores a misspelt role variable. This action compares the names of all variables with the argument specs of this
    collection's roles, and fails with every unknown name that begins like a role's variable.
  - A value that the argument spec does not allow is a failure as well, once for each value, with the hosts that have it. Text is
    not taken for a truth value or a list, as C(-e name=false) and INI files would have it. A value with a template in it is checked
    if the control node can template it; an undefined variable in it is a failure if this run deploys the role, else a warning.
    The playbooks of this collection check here once, and not in every role on every host.
  - Templates and files that a site names for a role must exist on the control node, and its templates must be valid.
  - A path of C(<role>_extra_files) or C(<role>_drop_ins) that a part writes on the same host, or that two variables name, is a failure.
    What a role writes on a host is decided as in a deployment; a path that only a task on the node can decide counts as written.
  - A template of a site is rendered for the hosts that use it, and an undefined variable in it is a failure. It is a warning if
    this run deploys other roles only.
  - A variable, or without a cluster file a group, whose name is nearly a known one is a failure. A file of group_vars or host_vars
    without its group or host, and a tag that is a role's name, are warnings. Ansible ignores each of them.
  - Without a cluster file, a group that this run needs is a failure if it is missing and host_pattern_mismatch is C(error).
  - All groups and all hosts of the inventory are checked, also with C(--limit), with their group_vars and host_vars.
    Of the playbook only variables of the task are.
  - What makes the fabric of the cluster file impossible, such as more cables than a switch has ports, is a failure, too.
  - The variables of the fabric's playbooks, such as C(fabric_slurm_version), are looked at as well.
  - Runs on the control node and connects to no machine.
  - The secrets of the variable C(bedplate_secrets) are read, and an unusable secret is a failure. So is a variable of that
    name for a group or a host. No value is shown.
options:
  secrets:
    description:
      - Roles that this run deploys, and whose secrets it needs. An unusable secret in the secrets directory is a mistake, too, and
        with C(bedplate_secrets_make=false) a missing one.
    type: list
    elements: str
    default: []
  gpu:
    description: Whether a key of a repository of GPU software that cannot be read is a mistake, too.
    type: bool
    default: false
  fabric:
    description: Whether a cluster file that plans no fabric is a mistake, too.
    type: bool
    default: false
  upgrade:
    description: >-
      Whether the variables of C(playbooks/upgrade_slurm.yml) are checked, and an inventory without controllers or a managed database is a
      mistake, too.
    type: bool
    default: false
  backup:
    description: Whether the variables of C(playbooks/backup.yml) and its public key are checked, too.
    type: bool
    default: false
  restore:
    description: Whether the variables of C(playbooks/restore.yml), its backup and its private key are checked, too.
    type: bool
    default: false
  roll:
    description: Whether an inventory without Slurm controllers is a mistake, too.
    type: bool
    default: false
  takeover:
    description: Whether a missing or wrong C(takeover_by) is a mistake, too, as playbooks/takeover.yml needs it.
    type: bool
    default: false
  recover:
    description: Whether a missing C(--limit), or a limit with other hosts than compute nodes, is a mistake, too.
    type: bool
    default: false
  turn:
    description: Whether an inventory without Slurm controllers is a mistake, too, for playbooks/turn_keys.yml.
    type: bool
    default: false
  playbook:
    description: Playbook that commands BMCs, without its suffix. Its variables and the names of its nodes are checked, too.
    type: str
    choices: [bmc_discover, bmc_commission, power, firmware, bios, provision]
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Check every variable that an inventory sets for a role
  bedplate.cluster.role_variables:
  delegate_to: localhost
  run_once: true
# => host gpu01: slurm_rest_listn is not a variable of the role slurm; did you mean slurm_rest_listen?
"""

RETURN = r"""
msg:
  description: On a failure one line for each unknown variable, each wrong value and each mistake in the plan.
  type: str
  returned: always
"""
