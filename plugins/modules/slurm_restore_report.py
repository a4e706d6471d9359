#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_restore_report
short_description: Report a restore of Slurm host by host
version_added: 0.2.0
description:
  - Prints what was restored on each host, and which jobs run on, were ended, or are missing.
  - Warns of jobs that ran at the restore, and that slurmctld does not have as running.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node alone.}
  check_mode: {support: none, description: A preview ends before it.}
"""

EXAMPLES = r"""
- name: Report the restore
  bedplate.cluster.slurm_restore_report:
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
unknown:
  description: Jobs that ran at the restore and that slurmctld does not have as running.
  type: list
  elements: int
  returned: always
"""
