# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs are sorted by the time at which slurmctld wrote the state: what it may lack is not taken for running."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_list import (
    BackedUpJobs,
    JobsError,
    parse,
    read,
)
from tests.kit.backups import SAVED_AT, SQUEUE


def test_jobs_of_a_backup():
    found = parse(SQUEUE, SAVED_AT)
    assert found == BackedUpJobs(SAVED_AT, running=(41, 42), waiting=(43, 44), later=(45,))
    assert BackedUpJobs.of(found.facts()) == found


def test_a_job_that_ended_after_the_state_was_written_is_running_in_it():
    assert parse("40|COMPLETED|90|80|130\n39|COMPLETED|90|80|99\n", 100).running == (40,)


def test_a_job_of_the_same_second_may_be_missing():
    assert parse("41|RUNNING|100|90|N/A\n42|RUNNING|100|100|N/A\n", 100) == BackedUpJobs(100, (), (41,), (42,))


def test_a_slurmctld_that_does_not_answer_is_an_error():
    with pytest.raises(JobsError, match="Unable to contact"):
        read(1, lambda *_a, **_k: Outcome(1, "", "slurm_load_jobs error: Unable to contact slurm controller"))
