#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_restore_plan
short_description: Open a backup of Slurm, check it, and plan its restore
version_added: 0.2.0
description:
  - Decrypts every member of the backup on the control node, and compares digests, rows and files with its manifests.
  - Judges what M(bedplate.cluster.slurm_restore) read on hosts and nodes. Every reason against the restore is in one error.
  - Jobs that the restored slurmctld would end are named.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node alone.}
  check_mode: {support: full, description: It plans all the same.}
"""

EXAMPLES = r"""
- name: Plan the restore
  bedplate.cluster.slurm_restore_plan:
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
core:
  description: Hosts that are restored, empty if an earlier call has restored this backup.
  type: list
  elements: str
  returned: success
kept: {description: Jobs that run on., type: list, elements: int, returned: success}
ended: {description: "Running job to the reason why Slurm ends it.", type: dict, returned: success}
missing: {description: "Job of the backup to the reason why it does not run on.", type: dict, returned: success}
next_job: {description: The least id of the next job., type: int, returned: success}
"""
