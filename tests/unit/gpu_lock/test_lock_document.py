"""The lock file: one reader and one writer, one text for one content, and errors that say where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock import lock_document
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock.lock_document import (
    GpuLock,
    LockedIndex,
    LockedSource,
    LockError,
)

INDEX = LockedIndex("nvidia", "/", "http://m.example.org/Packages.gz", "0" * 64)


def lock(**packages: tuple[str, ...]) -> GpuLock:
    return lock_document.lock_of({"debian-13": {"nvidia": LockedSource((INDEX,), packages)}})


def written(directory: Path, found: GpuLock) -> Path:
    path = lock_document.path_of(directory / "west.bedplate.yml")
    assert path is not None
    lock_document.write(path, found)
    return path


def test_what_is_written_is_read_again(tmp_path):
    found = lock(libcuda1=("580.126.09-1", "580.65.06-1"), nvlsm=("2025.10.14-1",))
    path = written(tmp_path, found)
    again = lock_document.read(tmp_path / "west.bedplate.yml")
    assert again == found
    assert again is not None
    assert again.systems == found.systems
    # A package is a line of a diff.
    assert '     "libcuda1": ["580.126.09-1", "580.65.06-1"],\n' in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_write_that_is_cut_short_leaves_the_old_lock(tmp_path, monkeypatch):
    path = written(tmp_path, lock(a=("1",)))
    before = path.read_text()

    def killed(_self: Path, _target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        lock_document.write(path, lock(a=("2",)))
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_order_in_which_packages_were_found_does_not_matter():
    assert lock_document.text_of(lock(a=("1",), b=("2",))) == lock_document.text_of(lock(b=("2",), a=("1",)))


def test_without_a_file_there_is_no_lock(tmp_path):
    assert lock_document.read(tmp_path / "west.bedplate.yml") is None
    # An inventory without a cluster file has its folder's name here.
    assert lock_document.read(tmp_path) is None
    assert lock_document.path_of(tmp_path) is None


def edited(directory: Path, change: Any) -> list[str]:
    path = written(directory, lock(libcuda1=("580.65.06-1",)))
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(LockError) as caught:
        lock_document.read(directory / "west.bedplate.yml")
    return [line.removeprefix(f"{path}: ") for line in caught.value.mistakes]


def packages(data: Any) -> Any:
    return data["systems"]["debian-13"]["nvidia"]["packages"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda data: packages(data).update(libcuda1=["580.126.09-1"]), "sha256: "),
        (lambda data: packages(data).pop("libcuda1"), "sha256: "),
        (lambda data: data.update(sha256="0" * 64), "sha256: "),
        (lambda data: data.update(format=2), "format: 2 "),
        (lambda data: data.update(systems=[]), "systems: "),
        (lambda data: data["systems"].update({"debian-13": []}), "systems.debian-13: "),
        (lambda data: data["systems"]["debian-13"].update(nvidia={}), "systems.debian-13.nvidia: "),
        (lambda data: packages(data).update(libcuda1="1"), "systems.debian-13.nvidia.packages.libcuda1: None"),
        (lambda data: packages(data).update(libcuda1=["1 2"]), "systems.debian-13.nvidia.packages.libcuda1: '1 2'"),
        (
            lambda data: data["systems"]["debian-13"]["nvidia"]["indexes"][0].update(sha256="x"),
            "systems.debian-13.nvidia.indexes[0].sha256: 'x'",
        ),
    ],
)
def test_an_edited_lock_is_refused_where_it_was_edited(tmp_path, change, where):
    (line,) = edited(tmp_path, change)
    assert line.startswith(where)


def test_a_lock_after_a_merge_in_git_is_refused(tmp_path):
    path = written(tmp_path, lock())
    path.write_text(f"<<<<<<< HEAD\n{path.read_text()}")
    with pytest.raises(LockError, match="is not JSON"):
        lock_document.read(tmp_path / "west.bedplate.yml")


def test_a_lock_that_changed_is_read_again(tmp_path):
    file = tmp_path / "west.bedplate.yml"
    written(tmp_path, lock(a=("1",)))
    before = lock_document.stamp(file)
    first = lock_document.read(file)
    written(tmp_path, lock(a=("2",)))
    assert lock_document.stamp(file) != before
    assert lock_document.read(file) != first
