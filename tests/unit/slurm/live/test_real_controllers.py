# SPDX-License-Identifier: GPL-3.0-or-later
"""A fail-over and takeovers of two real slurmctld with one StateSaveLocation."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.takeover import TakeoverError
from tests.unit.slurm.live.two_controllers import TIMEOUT, TwoControllers

pytestmark = [pytest.mark.daemons, pytest.mark.tools("slurmctld", "slurmd", "scontrol", "sbatch")]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[TwoControllers]:
    # New processes for each test: a standby of 22.05 that takes the control for the second time may hang when it gives it back.
    with TwoControllers(tmp_path) as found:
        yield found


def test_control_goes_forth_and_back_and_a_second_call_changes_nothing(pair: TwoControllers):
    seen = pair.controllers().settled()
    assert (seen.acting, seen.writer_name, seen.is_up("ctl2")) == ("ctl1", "ctl1", True)

    predicted = pair.takeover("ctl2", check=True)
    predicted.take()
    assert (predicted.actions, pair.controllers().look().acting) == (["scontrol takeover 1"], "ctl1")
    forth = pair.takeover("ctl2")
    assert (forth.take()[1].acting, forth.actions) == ("ctl2", predicted.actions)
    # A takeover ends the slurmctld of the primary.
    pair.until(lambda: not pair.is_running("ctl1"))
    again = pair.takeover("ctl2")
    assert (again.take()[1].acting, again.actions) == ("ctl2", [])

    back = pair.takeover("ctl1")
    after = back.take()[1]
    assert (after.acting, after.writer_name, back.actions) == ("ctl1", "ctl1", ["systemctl start slurmctld.service"])
    again = pair.takeover("ctl1")
    assert (again.take()[1].acting, again.actions) == ("ctl1", [])
    pair.until(lambda: pair.controllers().look().is_up("ctl2"))


def test_a_killed_primary_is_waited_for_until_its_standby_is_in_charge(pair: TwoControllers):
    pair.kill("ctl1")
    seen = pair.controllers().settled()
    assert (seen.acting, seen.writer_name, seen.serves) == ("ctl2", "ctl2", True)
    # A standby of 22.05 that has just taken the control may hang when it gives it up.
    assert pair.takeover("ctl1").take()[1].acting == "ctl1"


@contextmanager
def beating(heartbeat: Path) -> Iterator[None]:
    """Write the heartbeat of the primary, as a process that the network does not reach."""
    over = threading.Event()

    def beat() -> None:
        new = heartbeat.with_name("heartbeat.test")
        while not over.wait(0.2):
            new.write_bytes(struct.pack(">QQ", int(time.time()), 0))
            new.replace(heartbeat)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_no_second_writer_joins_a_primary_that_answers_nothing_and_writes_its_heartbeat(pair: TwoControllers):
    """As where the network between both is cut, and the storage is not."""
    with pair.stopped("ctl1"), beating(pair.folder / "state/heartbeat"):
        seen = pair.controllers().settled()
        assert (seen.acting, seen.is_up("ctl1"), seen.beats) == ("ctl1", False, True)
        takeover = pair.takeover("ctl2")
        with pytest.raises(TakeoverError, match="ctl1 does not answer ctl2"):
            takeover.take()
        assert takeover.actions == []
    pair.until(lambda: pair.controllers().look().acting == "ctl1", TIMEOUT * 5)
