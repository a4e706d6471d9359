# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the partitions that bedplate has closed: what a later run of another name adds or removes keeps the rest."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.fence import Closed

THEN = datetime(2026, 11, 22, 22, 18, 50, tzinfo=UTC)


@pytest.fixture
def closed(tmp_path: Path) -> Closed:
    return Closed(tmp_path / "state")


def test_partitions_that_an_earlier_run_has_closed_stay_on_record(closed: Closed):
    """Nobody would open them again."""
    closed.add(["old"], "killed", THEN)
    closed.add(["older", "old"], "mine", THEN)
    assert closed.names() == ["old", "older"]


def test_what_remains_on_record_keeps_its_run_and_its_time(closed: Closed):
    """Otherwise the next run would take what another run is about to open for what a killed run has left."""
    closed.add(["old", "older"], "other", THEN)
    closed.remove(["old", "unknown"])
    assert (closed.names(), closed.origin()) == (["older"], ("other", THEN))


def test_a_record_of_nothing_is_no_file(closed: Closed):
    closed.add(["old"], "other", THEN)
    closed.remove(["old"])
    assert (closed.names(), closed.origin(), list(closed.path.parent.iterdir())) == ([], ("", None), [])
