#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Save database and state of Slurm before an upgrade, and restore them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_saved
short_description: Save the database and the state of Slurm before an upgrade, and restore them
version_added: 0.2.0
description:
  - Used by C(playbooks/upgrade_slurm.yml), with the daemons stopped.
  - The copies are in C(<folder>/<old>-<new>), mode 0700 of root, each with mode 0600. A copy of an earlier call is made again, unless
    O(keep), or a daemon of the new release was started after it. A way back that was killed while it restored a copy is completed first.
options:
  step:
    description:
      - V(dump) dumps the database, restores the dump into a scratch database and compares the rows of each table. A dump without its last
        line, or with other rows, is refused and removed.
      - V(archive) archives StateSaveLocation, lists the archive and compares names and sizes.
      - V(restore_database) and V(restore_state) replace the data by the copies, if a daemon of the new release was started here.
    type: str
    choices: [dump, archive, restore_database, restore_state]
    required: true
  folder: {description: Where the folders of upgrades are., type: path, default: /var/lib/bedplate/slurm-upgrade}
  old: {description: "The release before, such as 24.11.", type: str, required: true}
  new: {description: "The release after, such as 26.05.", type: str, required: true}
  database: {description: Name of the database., type: str, default: slurm_acct_db}
  path: {description: StateSaveLocation., type: path, default: ''}
  user: {description: SlurmUser., type: str, default: slurm}
  keep:
    description: Whether a copy of an earlier call stays, because this host has packages of the new release.
    type: bool
    default: false
  seconds: {description: How long a dump or its restore may take., type: int, default: 7200}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It changes nothing and says whether the copy exists.}
"""

EXAMPLES = r"""
- name: Dump the database and prove the dump
  bedplate.cluster.slurm_saved: {step: dump, old: "24.11", new: "26.05"}
# => changed: true, saved: {at: 1764187200, bytes: 183500, tables: 41, rows: 1204}
"""

RETURN = r"""
saved: {description: "The copy: when it was made, its bytes, and what it has.", type: dict, returned: success}
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.database_dump import Database, DumpError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.state_archive import (
    ArchiveError,
    StateArchive,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.upgrade_folder import (
    ARCHIVED,
    DUMP,
    DUMPED,
    RESTORING,
    STATE,
    UpgradeFolder,
)


def _dump(module: AnsibleModule, folder: UpgradeFolder) -> dict[str, Any]:
    path = folder.path / DUMP
    rows = Database(module.params["database"], module.params["seconds"]).dump(path)
    return {"tables": len(rows), "rows": sum(rows.values()), "bytes": path.stat().st_size}


def _archive(module: AnsibleModule, folder: UpgradeFolder) -> dict[str, Any]:
    path = folder.path / STATE
    count = StateArchive(Path(module.params["path"]), module.params["user"]).save(path)
    return {"files": count, "bytes": path.stat().st_size}


def _restore_database(module: AnsibleModule, folder: UpgradeFolder) -> None:
    Database(module.params["database"], module.params["seconds"]).restore(folder.path / DUMP)


def _restore_state(module: AnsibleModule, folder: UpgradeFolder) -> None:
    StateArchive(Path(module.params["path"]), module.params["user"]).restore(folder.path / STATE)


_SAVE: dict[str, tuple[str, Callable[[AnsibleModule, UpgradeFolder], dict[str, Any]]]] = {
    "dump": (DUMPED, _dump),
    "archive": (ARCHIVED, _archive),
}
_RESTORE = {"restore_database": DUMPED, "restore_state": ARCHIVED}
_RESTORES: dict[str, Callable[[AnsibleModule, UpgradeFolder], None]] = {
    DUMPED: _restore_database,
    ARCHIVED: _restore_state,
}


def _run(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    folder = UpgradeFolder(Path(params["folder"]), params["old"], params["new"])
    marks = folder.marks()
    if params["step"] in _SAVE:
        mark, save = _SAVE[params["step"]]
        if module.check_mode:
            stays = folder.is_needed(mark) or (params["keep"] and mark in marks)
            return {"changed": not stays, "saved": marks.get(mark, {})}
        if mark in marks and RESTORING[mark] in marks:
            _restore(module, folder, mark)
        if folder.is_needed(mark) or (params["keep"] and mark in folder.marks()):
            return {"changed": False, "saved": marks[mark]}
        folder.make()
        folder.mark(mark, save(module, folder), again=True)
        return {"changed": True, "saved": folder.marks()[mark]}
    mark = _RESTORE[params["step"]]
    is_needed = folder.is_needed(mark)
    if is_needed and not module.check_mode:
        _restore(module, folder, mark)
    return {"changed": is_needed, "saved": marks.get(mark, {})}


def _restore(module: AnsibleModule, folder: UpgradeFolder, mark: str) -> None:
    """Replace the data by a copy. Afterwards the copy counts no more: the old release runs on, and has new jobs."""
    folder.mark(RESTORING[mark])
    _RESTORES[mark](module, folder)
    folder.forget(RESTORING[mark], mark)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": [*_SAVE, *_RESTORE], "required": True},
            "folder": {"type": "path", "default": "/var/lib/bedplate/slurm-upgrade"},
            "old": {"type": "str", "required": True},
            "new": {"type": "str", "required": True},
            "database": {"type": "str", "default": "slurm_acct_db"},
            "path": {"type": "path", "default": ""},
            "user": {"type": "str", "default": "slurm"},
            "keep": {"type": "bool", "default": False},
            "seconds": {"type": "int", "default": 7200},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**_run(module))
    except (DumpError, ArchiveError, OSError, ValueError) as error:
        module.fail_json(msg=f"{module.params['step']}: {error}")


if __name__ == "__main__":
    main()
