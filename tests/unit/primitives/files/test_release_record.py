"""Which release of bedplate is on record on a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE, UNRECORDED
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    ManagedPath,
    load,
    save,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.release_record import (
    record_release,
    recorded_release,
)

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
