# SPDX-License-Identifier: GPL-3.0-or-later
"""The copy of a state has every file of slurmctld but older and unfinished versions, job_state first, also while files are replaced."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import job_header
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_header import HeaderError, JobHeader
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.live_copy import CopyError, LiveState
from tests.kit.backups import NO_USER as USER
from tests.kit.backups import SAVED_AT, write_state


def copied(state: LiveState) -> list[tuple[str, bytes]]:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w|") as tar:
        state.copy(tar)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as tar:
        return [(one.name, tar.extractfile(one).read()) for one in tar]  # type: ignore[union-attr]


def test_all_files_and_job_state_first(tmp_path: Path):
    expected = write_state(tmp_path)
    found = copied(LiveState(tmp_path, USER))
    assert found[0][0] == "job_state"
    assert dict(found) == expected


def test_a_file_that_is_replaced_is_read_a_moment_later(tmp_path: Path):
    expected = write_state(tmp_path)
    (tmp_path / "job_state").rename(tmp_path / "job_state.gone")

    def back(_seconds: float) -> None:
        (tmp_path / "job_state.gone").rename(tmp_path / "job_state")

    assert dict(copied(LiveState(tmp_path, USER, sleep=back))) == expected


def test_a_folder_without_state_is_refused(tmp_path: Path):
    with pytest.raises(CopyError, match="has no job_state: it is not the state of a slurmctld"):
        copied(LiveState(tmp_path, USER, sleep=lambda _seconds: None))
    (tmp_path / "job_state").write_bytes(b"something else, and long enough for a header of a job_state")
    with pytest.raises(CopyError, match="does not begin with the version"):
        copied(LiveState(tmp_path, USER))


def test_it_waits_for_the_next_save(tmp_path: Path):
    write_state(tmp_path)
    now = [float(SAVED_AT + 3)]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] > SAVED_AT + 5:
            write_state(tmp_path, saved_at=SAVED_AT + 5)

    state = LiveState(tmp_path, USER, sleep=sleep, clock=lambda: now[0])
    state.wait_for_save()
    assert state.header().saved_at == SAVED_AT + 5
    # In the same second a job may have started after it.
    begun = now[0] = SAVED_AT + 5.5
    state.wait_for_save()
    assert now[0] - begun >= 12
    begun = now[0] = SAVED_AT + 60.0
    state.wait_for_save()
    assert now[0] - begun >= 12


def test_the_next_id_is_raised_and_never_lowered():
    data = JobHeader(10752, SAVED_AT, 46).packed() + b"records"
    raised = job_header.raised(data, 10046)
    assert job_header.read(raised) == JobHeader(10752, SAVED_AT, 10046)
    assert raised[job_header.SIZE :] == b"records"
    assert job_header.raised(data, 46) is data
    with pytest.raises(HeaderError, match="at most"):
        job_header.raised(data, 67_043_328)
    with pytest.raises(HeaderError):
        job_header.read(b"\0\0")
