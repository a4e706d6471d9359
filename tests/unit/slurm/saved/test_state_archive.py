# SPDX-License-Identifier: GPL-3.0-or-later
"""An archive of slurmctld's state has every file with its size, and one that is cut short empties no directory."""

from __future__ import annotations

import getpass
import re
import tarfile
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved import kept_files, state_archive
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.state_archive import (
    ArchiveError,
    StateArchive,
)


@pytest.fixture
def state(tmp_path: Path) -> StateArchive:
    folder = tmp_path / "state"
    (folder / "hash.1/job.11").mkdir(parents=True)
    (folder / "hash.1/job.11/script").write_text("#!/bin/sh\n" * 300)
    (folder / "job_state").write_bytes(b"\0" * 5000)
    (folder / "clustername").write_text("molecule\n")
    return StateArchive(folder, getpass.getuser())


def test_what_is_saved_is_restored(state: StateArchive, tmp_path: Path):
    archive = tmp_path / "state.tar"
    assert state.save(archive) == 3
    assert archive.stat().st_mode & 0o777 == 0o600
    before = state.files()
    assert state.size() == 5000 + 9 + 3000
    (state.path / "job_state").write_text("of the new release")
    (state.path / "new_state").write_text("x")
    (state.path / "hash.2").mkdir()
    assert state.restore(archive) == 3
    assert state.files() == before
    assert not (state.path / "hash.2").exists()


@pytest.mark.parametrize("rest", [0.1, 0.2, 0.5])
def test_an_archive_that_is_cut_short_restores_nothing(state: StateArchive, tmp_path: Path, rest: float):
    archive = tmp_path / "state.tar"
    state.save(archive)
    data = archive.read_bytes()
    # tarfile would accept an end between two files.
    archive.write_bytes(data[: int(len(data) * rest) // 512 * 512])
    before = state.files()
    with pytest.raises(ArchiveError, match=re.escape(str(archive))):
        state.restore(archive)
    assert state.files() == before


def cuts(data: bytes) -> range:
    """Return where a tar may end too early, between two members as well: tarfile takes that for its end."""
    return range(512, len(data.rstrip(b"\0")), 512)


def test_an_archive_that_ends_anywhere_too_early_restores_nothing(state: StateArchive, tmp_path: Path):
    archive = tmp_path / "state.tar"
    (state.path / "node_state").write_text("after job_state")
    state.save(archive)
    data, before = archive.read_bytes(), state.files()
    for cut in cuts(data):
        archive.write_bytes(data[:cut])
        with pytest.raises(ArchiveError, match=re.escape(str(archive))):
            state.restore(archive)
        assert state.files() == before


def test_an_archive_of_something_else_restores_nothing(state: StateArchive, tmp_path: Path):
    archive = tmp_path / "x.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(state.path / "clustername", arcname="./clustername")
    with pytest.raises(ArchiveError, match="has no job_state; nothing was restored"):
        state.restore(archive)
    assert "job_state" in state.files()


def test_a_file_that_grew_is_found(state: StateArchive, tmp_path: Path):
    archive = tmp_path / "state.tar"
    state.save(archive)
    (state.path / "job_state").write_bytes(b"\0" * 5001)
    with pytest.raises(ArchiveError, match="job_state: 5001 bytes in the directory, 5000 in the archive"):
        state_archive.prove(archive, state.files())


def test_an_archive_that_is_not_the_directory_is_not_kept(
    state: StateArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = {**state.files(), "node_state": 7}
    monkeypatch.setattr(StateArchive, "files", lambda _self: before)
    with pytest.raises(ArchiveError, match="node_state: 7 bytes in the directory, not in the archive"):
        state.save(tmp_path / "state.tar")
    assert not (tmp_path / "state.tar").exists()


def test_a_restore_that_lacks_a_file_is_an_error(state: StateArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A slurmctld would start, and end the job without its script."""
    archive = tmp_path / "state.tar"
    state.save(archive)
    extract = tarfile.TarFile.extractall

    def incomplete(tar: tarfile.TarFile, path: Path) -> None:
        extract(tar, path)
        (path / "hash.1/job.11/script").unlink()

    monkeypatch.setattr(tarfile.TarFile, "extractall", incomplete)
    with pytest.raises(ArchiveError, match=r"hash\.1/job\.11/script: not bytes in the directory"):
        state.restore(archive)


def test_a_directory_without_state_is_not_archived(tmp_path: Path):
    (tmp_path / "x").mkdir()
    with pytest.raises(ArchiveError, match="has no job_state"):
        StateArchive(tmp_path / "x", getpass.getuser()).save(tmp_path / "x.tar")
    with pytest.raises(ArchiveError):
        StateArchive(tmp_path / "none", getpass.getuser()).size()


def test_kept_files_are_restored_and_newer_ones_are_removed(tmp_path: Path):
    root, archive = tmp_path / "root", tmp_path / "files.tar"
    (root / "etc/slurm").mkdir(parents=True)
    (root / "etc/slurm/slurm.conf").write_text("old")
    (root / "etc/slurm/slurm.conf").chmod(0o640)
    (root / "var/lib/bedplate").mkdir(parents=True)
    (root / "var/lib/bedplate/files.json").write_text("{}")
    kept_files.keep(archive, root)
    assert archive.stat().st_mode & 0o777 == 0o600
    (root / "etc/slurm/slurm.conf").write_text("new")
    (root / "etc/slurm/more.conf").write_text("new")
    (root / "etc/default").mkdir()
    (root / "etc/default/slurmctld").write_text("new")
    kept_files.restore(archive, root)
    assert (root / "etc/slurm/slurm.conf").read_text() == "old"
    assert (root / "etc/slurm/slurm.conf").stat().st_mode & 0o777 == 0o640
    assert not (root / "etc/slurm/more.conf").exists()
    assert not (root / "etc/default/slurmctld").exists()
    data = archive.read_bytes()
    (root / "etc/slurm/slurm.conf").write_text("new")
    for cut in (700, *cuts(data)):
        archive.write_bytes(data[:cut])
        with pytest.raises(kept_files.KeptError):
            kept_files.restore(archive, root)
        assert (root / "etc/slurm/slurm.conf").read_text() == "new"
