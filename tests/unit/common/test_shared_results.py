# SPDX-License-Identifier: GPL-3.0-or-later
"""What one fork computes for all hosts of a run: once, and readable by its user alone."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest
from ansible import constants

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.shared_results import once_a_run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the results of a run."""
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    return tmp_path / "bedplate-once"


def test_a_result_is_computed_once_for_each_key(place: Path) -> None:
    texts = iter([b"first", b"second", b"third"])
    assert [once_a_run(key, lambda: next(texts)) for key in ("a", "a", "b", "a")] == [
        b"first", b"first", b"second", b"first",
    ]  # fmt: skip


def test_others_cannot_read_a_result(place: Path) -> None:
    once_a_run("a", lambda: b"StoragePass=s3cret")
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / "a").stat().st_mode & 0o777 == 0o600


def _slow(log: Path) -> None:
    def make() -> bytes:
        with log.open("a") as stream:
            stream.write("made\n")
        time.sleep(0.3)
        return b"x"

    once_a_run("a", make)


def test_forks_wait_for_the_one_that_computes(place: Path, tmp_path: Path) -> None:
    log, forks = tmp_path / "log", multiprocessing.get_context("fork")
    running = [forks.Process(target=_slow, args=(log,)) for _ in range(4)]
    for one in running:
        one.start()
    for one in running:
        one.join(30)
    assert log.read_text() == "made\n"
