# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes that a run in check mode has predicted so far on a host, for later tasks of the same role.

Several parts of a role may have the same file or unit: the first one changes it, and the others find it changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import constants

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write

Changes = dict[str, list[str]]
"""`files`: paths, and `units`: names of units, each once."""


def predicted(host: str, role: str) -> Changes:
    """Return what tasks of a role have predicted on a host in this run."""
    try:
        found: Changes = json.loads(_place(host, role).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"files": [], "units": []}
    return found


def add(host: str, role: str, result: Mapping[str, Any]) -> None:
    """Add the changes in a result of bedplate.cluster.deploy in check mode."""
    before = predicted(host, role)
    # An action is a verb of systemctl and the units, as in "restart a.service b.service".
    units = [unit for action in result.get("actions") or () for unit in action.split()[1:]]
    now = {
        "files": list(dict.fromkeys([*before["files"], *(result.get("changed_files") or ())])),
        "units": list(dict.fromkeys([*before["units"], *units])),
    }
    if now != before:
        atomic_write(_place(host, role), json.dumps(now).encode(), mode=0o600, sync=False)


def _place(host: str, role: str) -> Path:
    """Return the file of a host and a role in Ansible's own directory for the temporary files of this run."""
    directory = Path(constants.DEFAULT_LOCAL_TMP) / "bedplate-predicted"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / hashlib.sha256(f"{host}\n{role}".encode()).hexdigest()
