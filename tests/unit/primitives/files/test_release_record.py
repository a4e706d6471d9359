"""Which release of bedplate is on record on a machine."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE, UNRECORDED
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import manifest
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    ManagedPath,
    NodeFilesError,
    load,
    save,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.release_record import (
    record_release,
    recorded_release,
)
from ansible_collections.bedplate.cluster.plugins.modules import node_state
from tests.kit import sentences
from tests.kit.module import Module, result_of

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
RECORD = ManagedPath("file", ["demo"], True, mode="0644", sha256="1")


def of_first_release(directory: Path) -> None:
    """Write the list as release 0.1.0 has it."""
    save(directory, {"/etc/demo": RECORD})
    document = json.loads((directory / "files.json").read_text())
    del document["release"]
    (directory / "files.json").write_text(json.dumps(document))


def test_a_machine_without_bedplate_has_no_release_and_gets_none(tmp_path: Path):
    assert recorded_release(tmp_path) == ""
    record_release(tmp_path, "0.9.0")
    assert list(tmp_path.iterdir()) == []


def test_a_new_machine_has_this_release_from_its_first_file_on(tmp_path: Path):
    save(tmp_path, {"/etc/demo": RECORD})
    assert recorded_release(tmp_path) == RELEASE


def test_a_list_without_a_release_is_of_the_first_one_and_stays_so_when_it_changes(tmp_path: Path):
    of_first_release(tmp_path)
    assert recorded_release(tmp_path) == UNRECORDED
    save(tmp_path, {"/etc/demo": RECORD, "/etc/other": RECORD})
    assert recorded_release(tmp_path) == UNRECORDED
    assert "release" not in json.loads((tmp_path / "files.json").read_text())


def test_the_end_of_a_run_records_and_the_files_stay(tmp_path: Path):
    of_first_release(tmp_path)
    record_release(tmp_path, RELEASE)
    assert recorded_release(tmp_path) == RELEASE
    assert load(tmp_path) == {"/etc/demo": RECORD}
    save(tmp_path, {})
    assert recorded_release(tmp_path) == RELEASE


def test_what_is_on_record_is_not_written_again(tmp_path: Path):
    save(tmp_path, {"/etc/demo": RECORD})
    before = (tmp_path / "files.json").stat()
    record_release(tmp_path, RELEASE)
    after = (tmp_path / "files.json").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_broken_list_has_no_release_and_is_left_alone(tmp_path: Path, text: str):
    (tmp_path / "files.json").write_text(text)
    assert recorded_release(tmp_path) == ""
    record_release(tmp_path, RELEASE)
    assert (tmp_path / "files.json").read_text() == text


def test_only_root_may_read_the_list(tmp_path: Path):
    of_first_release(tmp_path)
    record_release(tmp_path, RELEASE)
    assert (tmp_path / "files.json").stat().st_mode & 0o777 == 0o600


@contextmanager
def held(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold the lock of the list, as another run does, and have nobody wait for it."""
    monkeypatch.setattr(manifest, "_LOCK_SECONDS", 0.0)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def test_a_list_that_another_run_is_writing_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    of_first_release(tmp_path)
    with held(tmp_path, monkeypatch), pytest.raises(NodeFilesError, match="lock on"):
        record_release(tmp_path, RELEASE)
    assert recorded_release(tmp_path) == UNRECORDED


def test_a_full_disk_is_an_error_that_names_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    of_first_release(tmp_path)
    monkeypatch.setattr(manifest, "atomic_write", full)
    with pytest.raises(NodeFilesError) as caught:
        record_release(tmp_path, RELEASE)
    (problem,) = caught.value.problems
    assert str(tmp_path / "files.json") in problem
    assert recorded_release(tmp_path) == UNRECORDED


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return where a machine whose file system begins at `tmp_path` has the list."""
    directory = tmp_path / "var/lib/bedplate"
    directory.mkdir(parents=True)
    return directory


def verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool = False) -> dict[str, Any]:
    """Return the result of bedplate.cluster.node_state at the end of a run of site.yml."""
    params = {"parts": {}, "record_release": True, "sysroot": str(tmp_path)}
    return result_of(monkeypatch, node_state, Module(params, check_mode=check))


def test_the_module_records_once_and_reports_what_was_on_record(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
):
    of_first_release(state)
    runs = [verified(tmp_path, monkeypatch) for _ in range(2)]
    assert [(one["changed"], one["release"]) for one in runs] == [(True, UNRECORDED), (False, RELEASE)]


def test_in_check_mode_the_module_would_change_the_list_and_does_not(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
):
    of_first_release(state)
    before = (state / "files.json").read_bytes()
    assert verified(tmp_path, monkeypatch, check=True)["changed"] is True
    assert (state / "files.json").read_bytes() == before


def test_the_module_changes_nothing_on_a_machine_without_a_list(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
):
    found = verified(tmp_path, monkeypatch)
    assert (found["changed"], found["release"], list(state.iterdir())) == (False, "", [])


def test_a_release_that_cannot_be_recorded_is_a_finding_beside_the_others(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
):
    of_first_release(state)
    with held(state, monkeypatch):
        found = verified(tmp_path, monkeypatch)
    (row,) = found["findings"]
    assert (row["kind"], found["changed"], recorded_release(state)) == ("release", False, UNRECORDED)
    sentences.check(SENTENCES, "a list that another run is writing", [row["found"].replace(str(tmp_path), "")])
