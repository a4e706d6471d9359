#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_upgrade_plan
short_description: Check and plan an upgrade of Slurm over all hosts, and begin it
version_added: 0.2.0
description:
  - Judges what M(bedplate.cluster.slurm_upgrade) found on the hosts of the play. Every reason against the upgrade is in one error.
  - Holds the record of the run (M(bedplate.cluster.run_record)) on the controller that it is delegated to, if there is work. Fails if
    another upgrade or a roll holds its own.
  - How it upgrades is read from the variables C(upgrade_*), such as C(upgrade_serial); docs/reference/playbooks.md has them.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node and calls modules on the controller.}
  check_mode: {support: full, description: "It plans, and holds no record."}
"""

EXAMPLES = r"""
- name: Plan the upgrade
  bedplate.cluster.slurm_upgrade_plan:
  delegate_to: "{{ groups.slurm_controllers[0] }}"
  run_once: true
  register: upgrade
"""

RETURN = r"""
old: {description: "The release before, such as 24.11.", type: str, returned: success}
new: {description: "The release after, such as 26.05.", type: str, returned: success}
core:
  description: Hosts of the database and of controllers, empty if they have the release.
  type: list
  elements: str
  returned: success
nodes: {description: Nodes to upgrade., type: list, elements: str, returned: success}
others: {description: Login and REST hosts to upgrade., type: list, elements: str, returned: success}
pending: {description: All of these., type: list, elements: str, returned: success}
left: {description: "Hosts without an answer, and why.", type: dict, returned: success}
packages: {description: "Host to its packages, each with the old and the new version.", type: dict, returned: success}
space: {description: "Space that copies need and that is free, by host.", type: dict, returned: success}
"""
