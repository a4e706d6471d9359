#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Back up Slurm on one host into an encrypted file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_backup
short_description: Back up Slurm on one host into an encrypted file
version_added: 0.2.0
description:
  - Used by C(playbooks/backup.yml). Database, StateSaveLocation, keys and configuration of the host go through gpg into one file while
    Slurm runs. Nothing in plain is written to a disk.
  - The action plugin of this name sets every option but O(step).
options:
  step:
    description: V(take) makes a backup. V(prune) removes old ones, the newest O(keep) stay.
    type: str
    choices: [take, prune]
    default: take
  cluster: {description: Name of the cluster., type: str, default: ''}
  host: {description: Name of the host., type: str, default: ''}
  recipient: {description: "The OpenPGP public key, as text in armor.", type: str, default: ''}
  path: {description: Folder of the backups., type: path, default: /var/backups/bedplate}
  state: {description: "StateSaveLocation, empty for none.", type: str, default: ''}
  database: {description: "Name of the database, empty for none.", type: str, default: ''}
  user: {description: SlurmUser., type: str, default: slurm}
  seconds: {description: How long each member of the backup may take., type: int, default: 7200}
  keep: {description: How many backups stay., type: int, default: 7}
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It decides what the host has.}
  check_mode: {support: full, description: It makes no backup.}
"""

EXAMPLES = r"""
- name: Back up the host
  bedplate.cluster.slurm_backup:
  register: taken
# => file: /var/backups/bedplate/lab-ctl1-20261126T211500Z.backup, rows: 1204, tables: 41, running: 20
"""

RETURN = r"""
file: {description: The file of the backup., type: str, returned: with V(take)}
part: {description: "Where the file belongs on the control node, until the file of the backup has it.", type: str, returned: with V(take)}
at: {description: "When it was made, in seconds since 1970.", type: int, returned: with V(take)}
slurm: {description: "The installed release of Slurm, such as 24.11.5.", type: str, returned: with V(take)}
rows: {description: Rows of the dump., type: int, returned: with V(take)}
tables: {description: Tables of the dump., type: int, returned: with V(take)}
files: {description: Member to its number of files., type: dict, returned: with V(take)}
running: {description: Jobs that the backup has as running., type: int, returned: with V(take)}
waiting: {description: Jobs that the backup has as waiting., type: int, returned: with V(take)}
removed: {description: Old backups that were removed., type: list, elements: str, returned: success}
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import kept_backups
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.host_backup import HostBackup, Settings
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.take_backup import FAILURES, summary

_SETTINGS = ("cluster", "host", "path", "state", "database", "user", "seconds", "keep")


def _take(module: AnsibleModule) -> dict[str, Any]:
    if module.check_mode:
        return {"changed": True, "removed": []}
    key = Path(module.tmpdir) / "recipient"
    key.write_text(module.params["recipient"], encoding="utf-8")
    settings = Settings(**{name: module.params[name] for name in _SETTINGS}, recipient=str(key))
    path, found = HostBackup(settings).take()
    return {"changed": True, "file": str(path), "removed": [], **summary(found)}


def _prune(module: AnsibleModule) -> dict[str, Any]:
    if module.check_mode:
        return {"changed": False, "removed": []}
    of = f"{module.params['cluster']}-{module.params['host']}"
    removed = kept_backups.prune(Path(module.params["path"]), of, module.params["keep"])
    return {"changed": bool(removed), "removed": [one.name for one in removed]}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": ["take", "prune"], "default": "take"},
            "cluster": {"type": "str", "default": ""},
            "host": {"type": "str", "default": ""},
            "recipient": {"type": "str", "default": ""},
            "path": {"type": "path", "default": "/var/backups/bedplate"},
            "state": {"type": "str", "default": ""},
            "database": {"type": "str", "default": ""},
            "user": {"type": "str", "default": "slurm"},
            "seconds": {"type": "int", "default": 7200},
            "keep": {"type": "int", "default": 7},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**(_take if module.params["step"] == "take" else _prune)(module))
    except FAILURES as error:
        module.fail_json(msg=f"no backup was made: {error}")


if __name__ == "__main__":
    main()
