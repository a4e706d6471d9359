# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_key: what it reports of a key, and what it leaves when it replaces one."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import manifest
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys import munge_proof
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import (
    KeyFiles,
    KeyTurnError,
    fingerprint,
)
from ansible_collections.bedplate.cluster.plugins.modules import slurm_key
from tests.kit.module import Module, result_of

OLD, NEW = b"o" * 64, b"n" * 64
DEFAULTS: dict[str, Any] = {
    "state": None,
    "salt": "salt",
    "staged": fingerprint(NEW, "salt"),
    "credentials": {},
    "made_at": None,
    "read_at": None,
}


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    found = KeyFiles(tmp_path / "munge.key", tmp_path / "state")
    found.path.write_bytes(OLD)
    found.staged.write_bytes(NEW)
    own = manifest.ManagedPath("file", ["slurm_compute"], made=True, sha256=manifest.digest(OLD), sensitive=True)
    staged = manifest.ManagedPath("file", ["turn_munge_key"], made=True, sha256=manifest.digest(NEW), sensitive=True)
    manifest.save(found.state_directory, {str(found.path): own, str(found.staged): staged})
    return found


def call(monkeypatch: pytest.MonkeyPatch, files: KeyFiles, check: bool = False, **params: Any) -> dict[str, Any]:
    paths = {"path": str(files.path), "state_directory": str(files.state_directory)}
    return result_of(monkeypatch, slurm_key, Module({**DEFAULTS, **paths, **params}, check))


def test_a_report_has_fingerprints_and_no_key(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    found = call(monkeypatch, files)
    assert (found["present"], found["staged"]) == (fingerprint(OLD, "salt"), fingerprint(NEW, "salt"))
    assert found["changed"] is False
    text = json.dumps(found)
    assert not any(key.decode() in text or manifest.digest(key) in text for key in (OLD, NEW))


def test_two_reports_cannot_be_compared_with_each_other(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    one, two = (call(monkeypatch, files, salt=None)["present"] for _ in range(2))
    assert one != two


def test_a_machine_without_a_key_reports_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    files = KeyFiles(tmp_path / "none/munge.key", tmp_path)
    found = call(monkeypatch, files)
    assert (found["present"], found["staged"]) == ("", "")


def test_the_key_is_replaced_with_its_record_and_the_staged_one_stays(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    files.staged.chmod(0o400)
    assert call(monkeypatch, files, check=True, state="replaced")["changed"] is True
    assert files.path.read_bytes() == OLD
    found = call(monkeypatch, files, state="replaced")
    assert (found["changed"], found["present"]) == (True, fingerprint(NEW, "salt"))
    # The second munged may start again.
    assert found["staged"] == fingerprint(NEW, "salt")
    assert stat.S_IMODE(files.path.stat().st_mode) == 0o400
    records = manifest.load(files.state_directory)
    assert records[str(files.path)].sha256 == manifest.digest(NEW)
    assert records[str(files.path)].manifests == ["slurm_compute"]
    assert records[str(files.staged)].manifests == ["turn_munge_key"]
    assert call(monkeypatch, files, state="replaced")["changed"] is False


@pytest.mark.parametrize("staged", [b"another" * 9, None])
def test_another_or_no_staged_key_is_refused(monkeypatch: pytest.MonkeyPatch, files: KeyFiles, staged: bytes | None):
    files.staged.unlink()
    if staged is not None:
        files.staged.write_bytes(staged)
    found = call(monkeypatch, files, state="replaced")
    assert found["failed"]
    assert str(files.staged) in found["msg"]
    assert files.path.read_bytes() == OLD


def test_a_key_that_cannot_be_written_is_an_error(files: KeyFiles, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manifest, "save", _full)
    with pytest.raises(KeyTurnError, match="not replaced by the staged key"):
        files.put()
    assert files.path.read_bytes() == OLD


def test_no_other_run_writes_the_key_meanwhile(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    seen: list[bytes] = []

    @contextmanager
    def locked(directory: Path, create: bool) -> Iterator[None]:
        assert (directory, create) == (files.state_directory, True)
        seen.append(files.path.read_bytes())
        yield
        seen.append(files.path.read_bytes())

    monkeypatch.setattr(manifest, "locked", locked)
    assert call(monkeypatch, files, state="replaced")["changed"] is True
    assert seen == [OLD, NEW]


def test_a_lock_that_another_run_holds_changes_no_key(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    monkeypatch.setattr(manifest, "_LOCK_SECONDS", -1.0)
    with manifest.locked(files.state_directory, create=True):
        found = call(monkeypatch, files, state="replaced")
    assert found["failed"]
    assert "another bedplate run" in found["msg"]
    assert files.path.read_bytes() == OLD


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("params", "made_at", "read_at"),
    [({}, [], []), ({"made_at": "/run/a", "read_at": "/run/b"}, ["--socket=/run/a"], ["--socket=/run/b"])],
)
def test_a_proof_makes_and_reads_credentials_at_the_sockets(
    monkeypatch: pytest.MonkeyPatch, files: KeyFiles, params: dict[str, str], made_at: list[str], read_at: list[str]
):
    calls: list[Sequence[str]] = []

    def run(argv: Sequence[str], _timeout: float, enter: object = None) -> Outcome:
        calls.append(argv)
        # Whoever finds it elsewhere cannot read it, and it is of a user without rights.
        assert (enter, "--restrict-uid=0" in argv) == (("as munge", True) if argv[0] == "munge" else (None, False))
        return Outcome(0, "MUNGE:own:", "") if argv[0] == "munge" else Outcome(14, "", "Invalid credential")

    monkeypatch.setattr(munge_proof, "run", run)
    monkeypatch.setattr(munge_proof, "_as_user", lambda name: f"as {name}")
    found = call(monkeypatch, files, state="proved", credentials={"n1": "MUNGE:n1:"}, **params)
    assert (found["credential"], found["refused"]) == ("MUNGE:own:", {"n1": "Invalid credential"})
    unmunge, munge = calls
    assert [word for word in munge if word.startswith("--socket")] == made_at
    assert [word for word in unmunge if word.startswith("--socket")] == read_at
    assert not any("MUNGE:" in word for argv in calls for word in argv)


def test_the_fingerprint_of_a_key_is_not_the_digest_that_others_may_know():
    assert fingerprint(OLD, "") != manifest.digest(OLD)[:32]
