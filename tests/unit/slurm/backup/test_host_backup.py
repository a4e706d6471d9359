# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is backed up into one encrypted file with a manifest of counts; a failure leaves no file and removes no older one."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import container, kept_backups
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import KeyFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.host_backup import (
    BackupError,
    HostBackup,
    Settings,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_list import JobsError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.live_copy import Copied, LiveState
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import (
    ManifestError,
    parse,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.take_backup import summary, take
from tests.kit.backups import DUMP, NO_USER, PASSPHRASE, ROWS, SAVED_AT, Keys, path_with, programs, write_state


@pytest.fixture
def settings(tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> Settings:
    write_state(tmp_path / "state")
    monkeypatch.setenv("PATH", path_with(programs(tmp_path / "bin")))
    monkeypatch.setattr(
        "ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.pipes.SEARCH_PATH",
        path_with(tmp_path / "bin"),
    )
    monkeypatch.setattr(
        "ansible_collections.bedplate.cluster.plugins.module_utils.common.command.SEARCH_PATH",
        path_with(tmp_path / "bin"),
    )
    monkeypatch.setattr(LiveState, "wait_for_save", lambda _self: None)
    for name in ("etc/slurm/slurm.conf", "etc/slurm/jwt_hs256.key", "etc/munge/munge.key"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(f"SECRET of {name}")
    return Settings(
        cluster="lab",
        host="ctl1",
        recipient=str(keys.public),
        path=str(tmp_path / "backups"),
        state=str(tmp_path / "state"),
        database="slurm_acct_db",
        user=NO_USER,
        seconds=60,
    )


def test_one_file_with_a_manifest(settings: Settings, tmp_path: Path, keys: Keys):
    path, found = HostBackup(settings, root=tmp_path / "root").take()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert b"SECRET" not in path.read_bytes()
    assert b"lab_job_table" not in path.read_bytes()
    (tmp_path / "unpacked").mkdir()
    members = container.unpack(path, tmp_path / "unpacked")["ctl1"]
    assert set(members) == {"manifest.json.gpg", "state.tar.gpg", "database.sql.gpg", "files.tar.gpg"}
    with KeyFolder() as folder:
        folder.accept(keys.private)
        text = bytearray()
        folder.decrypted(members["manifest.json.gpg"], PASSPHRASE, 60, text.extend)
    assert parse(text.decode()) == found
    assert (found.cluster, found.host, found.slurm) == ("lab", "ctl1", "24.11.5")
    assert found.rows() == ROWS
    assert found.members["state.tar"]["next_job"] == 46
    assert found.members["files.tar"]["files"] == 3
    assert found.jobs
    assert found.jobs.at == SAVED_AT
    counts = summary(found)
    assert (counts["rows"], counts["tables"], counts["running"], counts["waiting"]) == (5, 3, 2, 2)


@pytest.mark.parametrize(
    ("break_", "error", "text"),
    [
        (lambda folder: (folder / "bin/dump.sql").write_text(DUMP[:-60]), BackupError, "is cut short"),
        (lambda folder: (folder / "bin/dump.sql").write_text("-- Dump completed\n"), BackupError, "has no tables"),
        (lambda folder: (folder / "backups").chmod(0o755), BackupError, "is open to others"),
        (lambda folder: (folder / "bin/mariadb-dump").write_text("#!/bin/sh\nexit 2\n"), Exception, "ended with 2"),
        (
            lambda folder: (folder / "bin/squeue").write_text("#!/bin/sh\necho no >&2; exit 1\n"),
            JobsError,
            "squeue: no",
        ),
        (lambda folder: (folder / "bin/slurmctld").unlink(), BackupError, "reports its release"),
    ],
)
def test_a_failure_leaves_no_file_and_the_older_backup(
    settings: Settings, tmp_path: Path, break_: object, error: type[Exception], text: str
):
    old = Path(settings.path) / "lab-ctl1-20260101T000000Z.backup"
    old.parent.mkdir(mode=0o700)
    old.write_bytes(b"older")
    break_(tmp_path)  # type: ignore[operator]
    if "release" in text:
        (tmp_path / "bin/slurmctld").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin/slurmctld").chmod(0o755)
        (tmp_path / "bin/slurmdbd").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin/slurmdbd").chmod(0o755)
    with pytest.raises(error, match=text):
        take(settings)
    assert [one.name for one in old.parent.iterdir()] == [old.name]


def test_the_state_is_copied_before_its_jobs_are_listed_and_before_the_database(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The other way round a job of the state may have an index that the dump lacks, or the list a job that the state lacks."""
    log = tmp_path / "log"
    for name in ("squeue", "mariadb-dump"):
        path = tmp_path / "bin" / name
        path.write_text(path.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho {name} >>{log}\n"))
    copy = LiveState.copy

    def noted(text: str) -> None:
        log.write_text((log.read_text() if log.exists() else "") + f"{text}\n")

    def copied(state: LiveState, tar: tarfile.TarFile) -> Copied:
        found = copy(state, tar)
        noted("copied")
        return found

    monkeypatch.setattr(LiveState, "wait_for_save", lambda _self: noted("saved"))
    monkeypatch.setattr(LiveState, "copy", copied)
    HostBackup(settings, root=tmp_path / "root").take()
    assert log.read_text().split() == ["saved", "copied", "squeue", "mariadb-dump"]


def whole(folder: Path, stamp: str) -> Path:
    member = folder / "member"
    member.write_bytes(b"x")
    path = folder / f"lab-ctl1-{stamp}.backup"
    container.write(path, {"ctl1/manifest.json.gpg": member})
    member.unlink()
    return path


def test_retention_keeps_the_newest_whole_ones(tmp_path: Path):
    days = [whole(tmp_path, f"2026010{day}T000000Z") for day in range(1, 6)]
    other = whole(tmp_path, "20260101T000000Z").rename(tmp_path / "west-ctl1-20250101T000000Z.backup")
    days[0] = whole(tmp_path, "20260101T000000Z")
    days[4].write_bytes(days[4].read_bytes()[:1024])
    assert kept_backups.newest(tmp_path, "lab-ctl1") == (1767484800, days[3])
    removed = kept_backups.prune(tmp_path, "lab-ctl1", 2)
    assert sorted(one.name for one in removed) == sorted(one.name for one in days[:2])
    # The broken one stays: no newer whole one exists.
    assert {one.name for one in tmp_path.iterdir()} == {one.name for one in (*days[2:], other)}


def test_retention_never_removes_the_last_whole_one(tmp_path: Path):
    old = whole(tmp_path, "20260101T000000Z")
    for day in (2, 3, 4):
        (tmp_path / f"lab-ctl1-2026010{day}T000000Z.backup").write_bytes(b"broken")
    assert kept_backups.prune(tmp_path, "lab-ctl1", 1) == []
    assert old.exists()


def test_other_texts_are_no_manifest():
    for text in ("", "[]", json.dumps({"format": 2}), json.dumps({"format": 1, "members": {"x": {"sha256": "y"}}})):
        with pytest.raises(ManifestError):
            parse(text)
