# SPDX-License-Identifier: GPL-3.0-or-later
"""With a real slurmctld: its state is copied while it runs, it is killed and its state lost, and a new one continues from the copy."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import host_state, job_list
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.crypt import KeyFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.live_copy import LiveState
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.put_back import Member, restore_state
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_jobs import fates
from tests.kit.backups import NO_USER, PASSPHRASE, Keys
from tests.unit.slurm.nodes.real_slurm import RealSlurm

pytestmark = [pytest.mark.daemons, pytest.mark.tools("slurmctld", "slurmd", "scontrol", "sbatch")]


def until(holds: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.5)
    return False


def test_jobs_before_and_after_a_backup(tmp_path: Path, keys: Keys):
    with RealSlurm(tmp_path) as slurm:
        run: Any = lambda argv, seconds, environment: command.run(  # noqa: E731
            argv, seconds, environment={**environment, "SLURM_CONF": str(slurm.conf)}
        )
        ends, stays = int(slurm.submit("n1", 25)), int(slurm.submit("n2", 3600))
        time.sleep(1.1)
        state = LiveState(slurm.folder / "state", NO_USER)
        state.wait_for_save()
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w|") as tar:
            copied = state.copy(tar)
        jobs = job_list.read(copied.header.saved_at, run)
        assert set(jobs.running) == {ends, stays}
        assert copied.header.next_id > stays
        lost = int(slurm.submit("n3", 3600))

        slurm.kill("slurmctld")
        shutil.rmtree(slurm.folder / "state")
        (slurm.folder / "state").mkdir()
        on_nodes = {job: ["n"] for job in host_state.node_jobs() if job in (ends, stays, lost)}
        found = fates(jobs, on_nodes)
        assert found.kept == [ends, stays]
        assert list(found.ended) == [lost]

        with KeyFolder() as gpg:
            with gpg.encrypted(tmp_path / "state.tar.gpg", keys.public, 60) as sink:
                sink.write(stream.getvalue())
            gpg.accept(keys.private)
            session = gpg.session(tmp_path / "state.tar.gpg", PASSPHRASE, 60)
        digest = hashlib.sha256(stream.getvalue()).hexdigest()
        member = Member(tmp_path / "state.tar.gpg", session, digest, 60)
        assert restore_state(member, slurm.folder / "state", NO_USER, lost + 1000)["next_job"] == lost + 1000
        slurm.start_controller()

        assert until(lambda: slurm.job(str(stays)).get("JobState") == "RUNNING"), slurm.scontrol("show", "jobs")
        assert until(lambda: lost not in host_state.node_jobs()), (slurm.folder / "slurmctld.log").read_text()
        assert "Orphan" in (slurm.folder / "slurmctld.log").read_text()
        assert until(lambda: slurm.job(str(ends)).get("JobState") == "COMPLETED"), slurm.scontrol("show", "jobs")
        assert stays in host_state.node_jobs()
        assert int(slurm.submit("n4", 3600)) == lost + 1000
        slurm.change(["scancel", "--full", str(stays), str(lost + 1000)])
        assert until(lambda: not {stays, lost + 1000} & set(host_state.node_jobs()))
