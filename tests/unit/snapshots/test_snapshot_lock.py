"""The file of the promoted snapshot: what a promotion keeps, and a file that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.snapshots import snapshot_lock
from ansible_collections.bedplate.cluster.plugins.plugin_utils.snapshots.snapshot_lock import (
    ChosenSnapshot,
    SnapshotLock,
    SnapshotLockError,
)

OLD = ChosenSnapshot("2026-11-20", "a" * 64, {"debian-13": ("security", "system")})
NEW = ChosenSnapshot("2026-11-26", "b" * 64, {"debian-13": ("security", "system")})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "west.bedplate.yml"


def test_what_is_written_is_read_back(file: Path) -> None:
    assert snapshot_lock.read(file) == SnapshotLock()
    lock = SnapshotLock(NEW, OLD, (OLD,))
    assert snapshot_lock.write(file, lock) == file.with_name("west.snapshot-lock.json")
    assert snapshot_lock.read(file) == lock
    assert snapshot_lock.text_of(lock) == file.with_name("west.snapshot-lock.json").read_text()


def test_nodes_that_test_have_the_other_snapshot() -> None:
    lock = SnapshotLock(OLD).with_testing(NEW)
    assert (lock.of_machine(True), lock.of_machine(False)) == (NEW, OLD)
    assert SnapshotLock(OLD).of_machine(True) == OLD
    assert SnapshotLock().of_machine(True) is None


def test_a_promotion_ends_the_test_and_remembers_the_one_before() -> None:
    lock = SnapshotLock(OLD, NEW).with_promoted(NEW)
    assert lock == SnapshotLock(NEW, None, (OLD,))
    back = lock.with_promoted(OLD)
    assert back == SnapshotLock(OLD, None, (NEW,))
    assert back.with_promoted(OLD) == back


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "format"),
        ({"promoted": {"name": "latest", "manifest": "a" * 64, "systems": {}}}, "name 'latest'"),
        ({"testing": {"name": "2026-11-26", "manifest": "short", "systems": {}}}, "manifest 'short'"),
        ({"promoted": {"name": "2026-11-26", "manifest": "a" * 64, "systems": {"../x": ["system"]}}}, "systems"),
        ({"former": None}, "former"),
        ({"former": ["2026-11-20"]}, "former[0]"),
    ],
)
def test_a_file_with_mistakes_is_refused(file: Path, change: dict[str, object], words: str) -> None:
    snapshot_lock.write(file, SnapshotLock(NEW))
    path = file.with_name("west.snapshot-lock.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(SnapshotLockError) as caught:
        snapshot_lock.read(file)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_json_is_refused(file: Path) -> None:
    file.with_name("west.snapshot-lock.json").write_text("<<<<<<< HEAD")
    with pytest.raises(SnapshotLockError):
        snapshot_lock.read(file)


def test_a_changed_file_has_another_stamp(file: Path) -> None:
    before = snapshot_lock.stamp(file)
    snapshot_lock.write(file, SnapshotLock(NEW))
    assert snapshot_lock.stamp(file) != before
