#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_backup_collect
short_description: Write one file with the backups of all hosts
version_added: 0.2.0
description:
  - Puts the fetched backups of M(bedplate.cluster.slurm_backup) and the control node's own part into one file. That part has the cluster
    file with the files beside it, and the secrets directory, encrypted to the same key.
  - Fails if a host of the backup has not made its part.
options: {}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node alone.}
  check_mode: {support: full, description: It writes no file.}
"""

EXAMPLES = r"""
- name: Write the file of the backup
  bedplate.cluster.slurm_backup_collect:
  run_once: true
  delegate_to: localhost
# => file: /srv/backups/lab-20261126T211500Z.backup
"""

RETURN = r"""
file: {description: The file of the backup., type: str, returned: success}
hosts: {description: "Host to the counts of its part.", type: dict, returned: success}
"""
