#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_upgrade_close
short_description: Report an upgrade of Slurm, and end its record
version_added: 0.2.0
description:
  - Judges what the tasks of C(playbooks/upgrade_slurm.yml) registered on their hosts. Fails if a host failed or is not upgraded yet.
  - Releases the record of the run on the controller that it is delegated to.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node and calls modules on the controller.}
  check_mode: {support: none, description: A preview ends before it.}
"""

EXAMPLES = r"""
- name: Report the outcome of each host
  bedplate.cluster.slurm_upgrade_close:
  delegate_to: "{{ groups.slurm_controllers[0] }}"
  run_once: true
"""

RETURN = r"""
outcomes: {description: "Outcome to hosts, as a hostlist: done, failed, waiting, left.", type: dict, returned: always}
"""
