# SPDX-License-Identifier: GPL-3.0-or-later
"""Program of bedplate-backup.service: back up this host by /etc/bedplate/backup.json, and remove old backups.

It runs without Ansible: the role slurm installs it with the modules that it imports.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from . import kept_backups
from .container import ContainerError
from .crypt import CryptError
from .host_backup import BackupError, HostBackup, Settings
from .job_list import JobsError
from .live_copy import CopyError
from .manifest import Manifest
from .pipes import PipeError

SETTINGS = Path("/etc/bedplate/backup.json")
FAILURES = (BackupError, ContainerError, CopyError, CryptError, JobsError, PipeError, OSError, ValueError)
"""What a backup raises; the texts are complete."""


def take(settings: Settings) -> tuple[Path, Manifest, list[Path]]:
    """Back up this host; return the file, its manifest, and the old files that were removed. Raises FAILURES."""
    path, found = HostBackup(settings).take()
    # After the new one is whole: a failure removes nothing.
    return path, found, kept_backups.prune(path.parent, f"{settings.cluster}-{settings.host}", settings.keep)


def summary(found: Manifest) -> dict[str, Any]:
    """Return the counts of a backup: rows, tables, files and jobs, without names."""
    rows = found.rows()
    jobs = found.jobs
    return {
        "at": found.at,
        "slurm": found.slurm,
        "rows": sum(rows.values()),
        "tables": len(rows),
        "files": {name: one["files"] for name, one in found.members.items() if "files" in one},
        "running": len(jobs.running) if jobs else 0,
        "waiting": len(jobs.waiting) if jobs else 0,
    }


def main() -> int:
    """Run the program; return its exit status."""
    try:
        path, found, removed = take(Settings(**json.loads(SETTINGS.read_text(encoding="utf-8"))))
    except (*FAILURES, TypeError) as error:
        sys.stderr.write(f"no backup was made: {error}\n")
        return 1
    result = {"file": str(path), "removed": [one.name for one in removed], **summary(found)}
    sys.stdout.write(f"{json.dumps(result)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
