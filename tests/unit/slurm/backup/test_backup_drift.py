# SPDX-License-Identifier: GPL-3.0-or-later
"""verify warns of a host whose newest whole backup is old, and of one without any."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import backup_drift, container

AT = 1767225600  # 2026-01-01
EXPECTED = {"path": "/var/backups/bedplate", "of": "lab-ctl1", "hours": 48}


def kinds(root: Path, hours: float) -> list[tuple[str, str]]:
    found = backup_drift.findings(str(root), EXPECTED, lambda: AT + hours * 3600)
    return [(one.kind, one.severity) for one in found]


def test_the_age_of_the_newest_whole_backup(tmp_path: Path):
    folder = tmp_path / "var/backups/bedplate"
    assert kinds(tmp_path, 1) == [("backup-missing", "warning")]
    folder.mkdir(parents=True)
    (tmp_path / "member").write_bytes(b"x")
    container.write(folder / "lab-ctl1-20260101T000000Z.backup", {"ctl1/manifest.json.gpg": tmp_path / "member"})
    (folder / "lab-ctl1-20260102T000000Z.backup").write_bytes(b"broken")
    assert kinds(tmp_path, 47) == []
    assert kinds(tmp_path, 49) == [("backup-old", "warning")]
