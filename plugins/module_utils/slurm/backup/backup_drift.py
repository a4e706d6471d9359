# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the newest backup of a host with the age that it may have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...common.finding import WARNING, Finding
from . import kept_backups

_REMEDY = "`systemctl status bedplate-backup` has the reason; playbooks/backup.yml makes one now"


def findings(root: str, expected: Mapping[str, Any], clock: Callable[[], float] = time.time) -> Iterator[Finding]:
    """Yield a warning if the newest whole backup is older than `hours`, or if none exists. `path`: its folder, `of`: such as lab-ctl1."""
    folder = Path(root, str(expected["path"]).lstrip("/"))
    allowed = f"a whole backup of the last {expected['hours']} hours"
    where = f"{expected['path']}/{expected['of']}-*.backup"
    found = kept_backups.newest(folder, str(expected["of"]))
    if found is None:
        yield Finding("backup-missing", where, allowed, "no whole backup", _REMEDY, severity=WARNING)
        return
    age = (clock() - found[0]) / 3600
    if age > expected["hours"]:
        text = f"{found[1].name}, {age:.0f} hours old"
        yield Finding("backup-old", where, allowed, text, _REMEDY, severity=WARNING)
