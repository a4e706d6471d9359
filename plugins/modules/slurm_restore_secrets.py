#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_restore_secrets
short_description: Restore secrets that the control node lacks from a backup of Slurm
version_added: 0.2.0
description:
  - Writes secrets of the backup that the secrets directory lacks, the munge key among them. A secret that exists stays.
  - The plan of M(bedplate.cluster.slurm_restore_plan) names them.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node alone.}
  check_mode: {support: full, description: It names the secrets and writes none.}
"""

EXAMPLES = r"""
- name: Restore secrets of the control node
  bedplate.cluster.slurm_restore_secrets:
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
secrets: {description: Names of secrets that were written., type: list, elements: str, returned: success}
"""
