# SPDX-License-Identifier: GPL-3.0-or-later
"""Members go from gpg into their places, compared with the manifest; what was there before is kept beside the state."""

from __future__ import annotations

import hashlib
import io
import tarfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import (
    host_state,
    job_header,
    pipes,
    put_back,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import KeyFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.put_back import (
    Marks,
    Member,
    RestoreError,
    restore_configuration,
    restore_state,
)
from ansible_collections.bedplate.cluster.plugins.modules import slurm_restore
from tests.kit.backups import DUMP, NO_USER, PASSPHRASE, ROWS, Keys, path_with, write_state
from tests.kit.module import Module, result_of


def member(folder: Path, keys: Keys, plain: bytes) -> Member:
    path = folder / "member.gpg"
    with KeyFolder() as gpg:
        with gpg.encrypted(path, keys.public, 60) as sink:
            sink.write(plain)
        gpg.accept(keys.private)
        session = gpg.session(path, PASSPHRASE, 60)
    return Member(path, session, hashlib.sha256(plain).hexdigest(), 60)


def tar_of(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            tar.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_the_state_with_a_raised_id(tmp_path: Path, keys: Keys):
    files = write_state(tmp_path / "source")
    state = tmp_path / "state"
    state.mkdir()
    (state / "job_state").write_bytes(b"of an empty slurmctld")
    found = restore_state(member(tmp_path, keys, tar_of(files)), state, NO_USER, 10050)
    assert found == {"files": len(files), "next_job": 10050}
    now = files_of(state)
    assert job_header.read(now.pop("job_state")).next_id == 10050
    aside = [name for name in now if name.startswith(".before-restore-")]
    assert [now.pop(name) for name in aside] == [b"of an empty slurmctld"]
    assert now == {name: data for name, data in files.items() if name != "job_state"}


def test_a_state_that_was_written_in_part_does_not_look_whole(
    tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch
):
    files = write_state(tmp_path / "source")
    state = tmp_path / "state"
    state.mkdir()
    written: list[str] = []
    write = put_back._write

    def killed(path: Path, data: bytes, mode: int) -> None:
        if len(written) == len(files) - 1:
            raise KeyboardInterrupt
        written.append(path.name)
        write(path, data, mode)

    monkeypatch.setattr(put_back, "_write", killed)
    backup = member(tmp_path, keys, tar_of(files))
    with pytest.raises(KeyboardInterrupt):
        restore_state(backup, state, NO_USER, 10050)
    assert host_state.controller_facts(state, NO_USER, lambda *_any: Outcome(3, "", ""))["files"] == 0
    monkeypatch.setattr(put_back, "_write", write)
    assert restore_state(backup, state, NO_USER, 10050)["files"] == len(files)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, keys: Keys, name: str):
    (tmp_path / "state").mkdir()
    with pytest.raises(RestoreError, match="not a plain file"):
        restore_state(member(tmp_path, keys, tar_of({name: b"x"})), tmp_path / "state", NO_USER, 1)
    assert not (tmp_path / "outside").exists()


def test_another_content_than_the_manifest_says_changes_nothing(tmp_path: Path, keys: Keys):
    state = tmp_path / "state"
    state.mkdir()
    (state / "job_state").write_bytes(b"before")
    good = member(tmp_path, keys, tar_of(write_state(tmp_path / "source")))
    with pytest.raises(RestoreError, match="another digest"):
        restore_state(Member(good.path, good.session, "0" * 64, 60), state, NO_USER, 1)
    assert files_of(state) == {"job_state": b"before"}


MARIADB = """\
#!/bin/sh
case "$*" in
  *DROP*) : >{0}/loaded ;;
  *table_name*) cut -f1 {0}/rows ;;
  *COUNT*) cat {0}/rows ;;
  *) cat >>{0}/loaded; exit $(cat {0}/code) ;;
esac
"""


@pytest.fixture
def mariadb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a MariaDB that has `rows` after a restore, which ends with `code`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mariadb").write_text(MARIADB.format(folder))
    (folder / "mariadb").chmod(0o755)
    (folder / "rows").write_text("".join(f"{name}\t{count}\n" for name, count in ROWS.items()))
    (folder / "code").write_text("0")
    (folder / "loaded").write_text("before")
    for module in (pipes, command):
        monkeypatch.setattr(module, "SEARCH_PATH", path_with(folder))
    return folder


def test_the_database_with_the_rows_of_the_backup(tmp_path: Path, keys: Keys, mariadb: Path):
    found = put_back.restore_database(member(tmp_path, keys, DUMP.encode()), "slurm_acct_db", ROWS)
    assert found == ROWS
    assert (mariadb / "loaded").read_text() == DUMP


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("rows", "lab_job_table\t1\nqos_table\t3\nlab_event_table\t0\n", "lab_job_table: 1 rows"),
        ("rows", "lab_job_table\t2\nqos_table\t3\n", "lab_event_table: no table rows"),
        ("code", "1", "ended with 1"),
    ],
)
def test_a_database_with_less_than_the_backup_is_an_error(
    tmp_path: Path, keys: Keys, mariadb: Path, name: str, text: str, error: str
):
    (mariadb / name).write_text(text)
    with pytest.raises(RestoreError, match=error):
        put_back.restore_database(member(tmp_path, keys, DUMP.encode()), "slurm_acct_db", ROWS)


def test_the_configuration_without_keys(tmp_path: Path, keys: Keys):
    files = {
        "etc/slurm/slurm.conf": b"ClusterName=lab\n",
        "etc/slurm/scripts/a/prolog": b"#!/bin/sh\n",
        "etc/slurm/jwt_hs256.key": b"key",
        "etc/slurm/slurmdbd.conf": b"DbdHost=x\n",
        "etc/munge/munge.key": b"key",
    }
    found = member(tmp_path, keys, tar_of(files))
    root = tmp_path / "root"
    assert restore_configuration(found, root) == ["/etc/slurm/slurm.conf", "/etc/slurm/scripts/a/prolog"]
    assert set(files_of(root)) == {"etc/slurm/slurm.conf", "etc/slurm/scripts/a/prolog"}
    assert restore_configuration(found, root) == []


def test_marks_are_of_one_backup(tmp_path: Path):
    path = tmp_path / "marks.json"
    marks = Marks("a" * 64, path)
    assert not marks.has("state")
    marks.set("database")
    marks.set("state")
    assert marks.has("state")
    assert set(put_back.recorded(path)["steps"]) == {"database", "state"}
    other = Marks("b" * 64, path)
    assert not other.has("state")
    other.set("database")
    assert put_back.recorded(path)["backup"] == "b" * 64
    assert set(put_back.recorded(path)["steps"]) == {"database"}


def test_a_database_that_was_restored_in_part_is_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "marks.json"
    monkeypatch.setattr(slurm_restore, "Marks", lambda backup: Marks(backup, path))

    def broken(*_any: object) -> None:
        raise RestoreError("the disk is full")

    monkeypatch.setattr(slurm_restore, "_member", lambda *_any: nullcontext())
    monkeypatch.setattr(put_back, "restore_database", broken)
    params = {"step": "database", "backup": "a" * 64, "database": "slurm_acct_db", "member": {"rows": {}}}
    result = result_of(monkeypatch, slurm_restore, Module(params))
    assert result["failed"]
    assert set(put_back.recorded(path)["steps"]) == {"database_begun"}
