# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of playbooks/backup.yml and restore.yml: their defaults, and mistakes in their values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import key_mistake

from ..common import run_variables
from ..common.run_variables import SWITCH, RunVariable, as_whole, matches, number, seconds

_PATH = "a path on the control node"
ACCEPT = "accept"
BACKUP: dict[str, RunVariable] = {
    "backup_recipient": RunVariable("", f"{_PATH} of a file with an OpenPGP public key", matches(r"\S.*")),
    "backup_to": RunVariable("", f"{_PATH} of a folder", matches(r"\S.*")),
    "backup_seconds": seconds(7200),
}
RESTORE: dict[str, RunVariable] = {
    "restore_from": RunVariable("", f"{_PATH} of the file of a backup", matches(r"\S.*")),
    "restore_key": RunVariable("", f"{_PATH} of a file with an OpenPGP private key", matches(r"\S.*")),
    "restore_passphrase_file": RunVariable("", f"{_PATH} of a file with the passphrase of the key", matches(r"\S.*")),
    "restore_over": SWITCH,
    "restore_loses_jobs": RunVariable("", ACCEPT, matches(ACCEPT)),
    "restore_job_gap": RunVariable(10000, "a number of job ids from 0 to 10000000", number(0, 10_000_000), as_whole),
    "restore_seconds": seconds(7200),
}


def backup_mistakes(variables: Mapping[str, object], recipient: str, controllers: Collection[str]) -> list[str]:
    """Return the mistakes of a backup; `recipient` is the file of the public key, "" without one."""
    found = run_variables.mistakes(variables, BACKUP, "backup_", "backup.yml")
    if not controllers:
        found.append("the group slurm_controllers has no machine, and playbooks/backup.yml backs up Slurm's state")
    if not recipient:
        found.append(
            "backup_recipient is not set, and slurm_backup has no recipient; allowed: the path of a file with an OpenPGP public key, "
            "which `gpg --export --armor KEY` writes"
        )
        return found
    return found + recipient_mistakes(recipient)


def recipient_mistakes(path: str) -> list[str]:
    """Return the mistake of the file with the public key."""
    return _key_mistakes("the recipient of backups", path, private=False)


def restore_mistakes(variables: Mapping[str, object], controllers: Collection[str]) -> list[str]:
    """Return the mistakes of a restore: wrong values, and files that cannot be read or are of another kind."""
    found = run_variables.mistakes(variables, RESTORE, "restore_", "restore.yml")
    if not controllers:
        found.append("the group slurm_controllers has no machine, and playbooks/restore.yml restores Slurm's state")
    for name in ("restore_from", "restore_key"):
        if not variables.get(name):
            found.append(f"{name} is not set; allowed: {RESTORE[name].allowed}")
    named = {name: str(variables[name]) for name in RESTORE if variables.get(name)}
    if "restore_from" in named and not Path(named["restore_from"]).is_file():
        found.append(f"restore_from: {named['restore_from']}: file not found")
    if "restore_key" in named:
        found += _key_mistakes("restore_key", named["restore_key"], private=True)
    if "restore_passphrase_file" in named:
        found += _mode_mistakes("restore_passphrase_file", Path(named["restore_passphrase_file"]))
    return found


def choices(variables: Mapping[str, object], known: Mapping[str, RunVariable], prefix: str) -> dict[str, Any]:
    """Return the value of each variable, without its prefix. Raises ValueError for values that the mistakes name."""
    return run_variables.choices(variables, known, prefix)


def _key_mistakes(name: str, path: str, private: bool) -> list[str]:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        return [f"{name}: {path}: {error.strerror}"]
    if wrong := key_mistake(data, private):
        return [f"{name}: {path} is {wrong}"]
    return _mode_mistakes(name, Path(path)) if private else []


def _mode_mistakes(name: str, path: Path) -> list[str]:
    try:
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        return [f"{name}: {path}: {error.strerror}"]
    return [f"{name}: {path} is open to others (mode {mode:04o}); allowed: 0600"] if mode & 0o077 else []
