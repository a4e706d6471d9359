# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup is opened only whole: with its key, every member, digest, row and file of its manifests."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import container
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import KeyFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import DATABASE, STATE
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import opened_backup
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.opened_backup import (
    OpenError,
    PrivateKey,
    open_backup,
    session_key,
)
from tests.kit.backups import PASSPHRASE, ROWS, Keys, make_backup


@pytest.fixture(scope="module")
def backup(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return make_backup(tmp_path_factory.mktemp("backup"), keys, monkeypatch)


def key(keys: Keys) -> PrivateKey:
    return PrivateKey(keys.private, PASSPHRASE)


def test_a_whole_backup(backup: Path, keys: Keys):
    found = open_backup(backup, key(keys), 60)
    assert set(found.manifests) == {"ctl1", "site"}
    assert found.host_of(STATE) == found.host_of(DATABASE) == "ctl1"
    assert found.manifests["ctl1"].rows() == ROWS
    # The control node's own copy before that of a host.
    assert found.secrets == {
        "munge_key": b"of the control node",
        "database_password": b"pw",
        "jwt_key": b"of the host: etc/slurm/jwt_hs256.key",
    }
    assert found.manifests["site"].members["cluster.tar"]["files"] == 3
    assert "pw" not in repr(found)
    assert [one.name for one in backup.parent.iterdir()] == [backup.name]


def test_a_session_key_of_one_member(backup: Path, keys: Keys):
    session = session_key(backup, key(keys), "ctl1", DATABASE, 60)
    assert session != session_key(backup, key(keys), "ctl1", STATE, 60)
    with pytest.raises(OpenError):
        session_key(backup, PrivateKey(keys.other), "ctl1", DATABASE, 60)


@pytest.mark.parametrize("name", ["wrong key", "wrong passphrase", "public key"])
def test_another_key(backup: Path, keys: Keys, name: str):
    chosen = {
        "wrong key": PrivateKey(keys.other),
        "wrong passphrase": PrivateKey(keys.private, b"no"),
        "public key": PrivateKey(keys.public),
    }[name]
    with pytest.raises(OpenError, match="cannot be decrypted"):
        open_backup(backup, chosen, 60)
    assert [one.name for one in backup.parent.iterdir()] == [backup.name]


def test_a_file_that_is_cut_short(backup: Path, keys: Keys, tmp_path: Path):
    short = tmp_path / backup.name
    short.write_bytes(backup.read_bytes()[: backup.stat().st_size // 2])
    with pytest.raises(OpenError):
        open_backup(short, key(keys), 60)
    short.write_bytes(b"")
    with pytest.raises(OpenError, match="cut short, or not a backup"):
        open_backup(short, key(keys), 60)
    with pytest.raises(OpenError, match="file not found"):
        open_backup(tmp_path / "none", key(keys), 60)


def changed(backup: Path, folder: Path, changes: dict[str, bytes | None], keys: Keys) -> Path:
    """Return a copy of the backup with other members: plain text that is encrypted again, or None to leave it out."""
    members = {
        f"{host}/{name}": path
        for host, found in container.unpack(backup, folder).items()
        for name, path in found.items()
    }
    for name, data in changes.items():
        path = members.pop(name)
        path.unlink()
        if data is not None:
            with KeyFolder() as gpg, gpg.encrypted(path, keys.public, 60) as sink:
                sink.write(data)
            members[name] = path
    file = folder / backup.name
    container.write(file, members)
    for host in ("ctl1", "site"):
        shutil.rmtree(folder / host)
    return file


def test_every_wrong_member_is_named(backup: Path, keys: Keys, tmp_path: Path):
    changes = {"ctl1/database.sql.gpg": b"-- Dump completed\n", "ctl1/state.tar.gpg": None}
    file = changed(backup, tmp_path, changes, keys)
    with pytest.raises(OpenError) as error:
        open_backup(file, key(keys), 60)
    text = str(error.value)
    assert "ctl1: state.tar.gpg is missing" in text
    assert "ctl1: database.sql: its content has another digest" in text
    assert "site" not in text.replace(str(file), "")


def test_a_manifest_of_something_else(backup: Path, keys: Keys, tmp_path: Path):
    file = changed(backup, tmp_path, {"ctl1/manifest.json.gpg": b'{"format": 9}'}, keys)
    with pytest.raises(OpenError, match="format 9; allowed: 1"):
        open_backup(file, key(keys), 60)


MANIFEST = "manifest.json.gpg"


def manifest_of(backup: Path, folder: Path, keys: Keys) -> dict[str, Any]:
    """Return the manifest of ctl1 in plain."""
    text = bytearray()
    (folder / "plain").mkdir()
    with KeyFolder() as gpg:
        gpg.accept(keys.private)
        gpg.decrypted(container.unpack(backup, folder / "plain")["ctl1"][MANIFEST], PASSPHRASE, 60, text.extend)
    shutil.rmtree(folder / "plain")
    return dict(json.loads(text))


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        (lambda one: one.update(host="ctl9"), "ctl1: the manifest is of host ctl9"),
        (lambda one: one["members"].pop("files.tar"), "ctl1: files.tar.gpg is not in the manifest"),
        (
            lambda one: one["members"]["files.tar"].update(files=4),
            "ctl1: files.tar: 3 files, and the manifest has 4",
        ),
        (
            lambda one: one["members"]["state.tar"].update(next_job=47),
            "ctl1: state.tar: job_state has next id 46, and the manifest 47",
        ),
    ],
)
def test_members_that_are_whole_and_not_those_of_their_manifest(
    backup: Path, keys: Keys, tmp_path: Path, change: Callable[[dict[str, Any]], object], mistake: str
):
    manifest = manifest_of(backup, tmp_path, keys)
    change(manifest)
    file = changed(backup, tmp_path, {f"ctl1/{MANIFEST}": json.dumps(manifest).encode()}, keys)
    with pytest.raises(OpenError) as error:
        open_backup(file, key(keys), 60)
    assert str(error.value).splitlines()[1:] == [mistake]


@pytest.mark.parametrize("name", ["../x.gpg", "./x.gpg", "ctl1/../../x.gpg", "x.gpg", "ctl1/x", "/etc/x.gpg"])
def test_a_member_that_would_leave_its_folder_is_not_written(tmp_path: Path, name: str):
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup/unpacked").mkdir()
    file = tmp_path / "backup/lab.backup"
    with tarfile.open(file, "w") as tar:
        for one in (f"ctl1/{MANIFEST}", name):
            entry = tarfile.TarInfo(one)
            entry.size = 1
            tar.addfile(entry, io.BytesIO(b"x"))
    with pytest.raises(container.ContainerError, match="is not a member of a backup"):
        container.unpack(file, tmp_path / "backup/unpacked")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {file.name, MANIFEST}


def test_rows_that_the_manifest_does_not_have():
    rows = opened_backup.DumpRows()
    rows.feed(b"INSERT INTO `t` VALUES\n(1),\n(2);\n-- Dump completed\n")
    assert opened_backup._row_mistakes(rows, {"rows": {"t": 3, "u": 1}}) == [
        "table t: 2 rows, and the manifest has 3",
        "table u: no rows, and the manifest has 1",
    ]
