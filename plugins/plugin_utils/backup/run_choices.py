# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the variables of a backup or a restore in a run, as actions get them from Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..slurm import backup_part
from .backup_variables import BACKUP, RESTORE, choices
from .opened_backup import PrivateKey

Template = Callable[[Any], Any]


def backup_choices(variables: Mapping[str, Any], template: Template) -> dict[str, Any]:
    """Return `seconds`, `to`, `recipient` as a path, and `options`, the variable slurm_backup. Raises ValueError, KeyError."""
    chosen = choices(_named(variables, template, BACKUP), BACKUP, "backup_")
    options = template(variables.get("slurm_backup")) or {}
    file = str(template(variables["bedplate_cluster_file"]))
    recipient = backup_part.recipient_path(chosen["recipient"], options, file)
    return {**chosen, "recipient": recipient, "options": options}


def restore_choices(variables: Mapping[str, Any], template: Template) -> dict[str, Any]:
    """Return the values of the variables of a restore. Raises ValueError."""
    return choices(_named(variables, template, RESTORE), RESTORE, "restore_")


def private_key(chosen: Mapping[str, Any]) -> PrivateKey:
    """Return the private key of a restore, with its passphrase. Raises OSError."""
    passphrase = b""
    if chosen["passphrase_file"]:
        passphrase = Path(chosen["passphrase_file"]).read_bytes().rstrip(b"\r\n")
    return PrivateKey(Path(chosen["key"]).resolve(), passphrase)


def _named(variables: Mapping[str, Any], template: Template, known: Mapping[str, object]) -> dict[str, Any]:
    return {name: template(variables[name]) for name in known if name in variables}
