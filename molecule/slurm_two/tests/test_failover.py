# SPDX-License-Identifier: GPL-3.0-or-later
"""The second day of two controllers, with 50 jobs that run through all of it: none is lost, and one controller writes at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.controllers import (
    BOTH_UP,
    NODE,
    ONLY_PRIMARY,
    ONLY_STANDBY,
    SCENARIO,
    TAKE_OVER,
    TIMEOUT,
    apply,
    changes,
    daemon,
    end_jobs,
    killwait,
    on,
    ping,
    run,
    shell,
    start_jobs,
    states,
    submits,
    until,
    writer,
)
from tests.kit.faults import Machine, parted
from tests.kit.judge import judge, observe, summary

JOBS = 50
CHANGED = ("SlurmctldTimeout: 20", "SlurmctldTimeout: 20\n    KillWait: 47")
CONTROLLER_ADDRESS = {"ctl1": "10.215.20.9", "ctl2": "10.215.20.10"}


@pytest.fixture
def jobs() -> Iterator[list[str]]:
    """Jobs that run through the test; afterwards each has run once, from its one start to its end."""
    ids = start_jobs(JOBS)
    before = observe(shell, "ctl1", [NODE])
    yield ids
    assert states(ids) == ["RUNNING"] * JOBS
    found = judge(before, observe(shell, "ctl1", [NODE]))
    # Also after a finding: jobs that are left would have the next test refused.
    ended = end_jobs(ids)
    assert found == [], summary(found)
    assert sorted(ended, key=lambda row: int(row[0])) == [[one, "COMPLETED", "0:0", "0"] for one in ids]


def take_over(directory: Path, name: str, *arguments: str) -> str:
    return apply(directory, "", "", f"--extra-vars=takeover_by={name}", *arguments, playbook="takeover")


def states_by(machine: str, ids: list[str]) -> list[str]:
    return on(machine, f"squeue --noheader --jobs={','.join(ids)} --format=%T").split()


def test_controllers_that_are_cut_off_from_each_other_never_both_write(tmp_path: Path, jobs: list[str]):
    primary, standby = daemon("ctl1"), daemon("ctl2")
    since = on("ctl2", "date +%H:%M:%S").strip()
    with parted(Machine(f"molecule-{SCENARIO}", "ctl2"), CONTROLLER_ADDRESS["ctl1"]):
        writers = set()
        end = time.monotonic() + 2 * TAKE_OVER
        while time.monotonic() < end:
            writers |= {writer("ctl1"), writer("ctl2")}
            time.sleep(1)
        # Each sees itself alone; only the primary serves.
        assert (ping("ctl1"), ping("ctl2")) == (ONLY_PRIMARY, ONLY_STANDBY)
        assert submits("ctl1") != ""
        assert submits("ctl2") == ""
        assert states_by("ctl1", jobs) == ["RUNNING"] * JOBS

        # Neither an operator nor a run makes a second writer.
        result = run(tmp_path, "", "", "--extra-vars=takeover_by=ctl2", playbook="takeover")
        assert result.returncode != 0
        assert "ctl1 does not answer ctl2, and it is in charge" in " ".join(result.stdout.split())
        assert changes(result.stdout) == {}
        assert changes(apply(tmp_path)) == {}
        assert (daemon("ctl1"), daemon("ctl2"), writer("ctl2")) == (primary, standby, 0)
    assert writers == {0}
    log = on("ctl2", f"journalctl --unit=slurmctld --output=cat --no-pager --since={since}")
    assert "trusting the filesystem instead of the network" in log or "still updating the heartbeat file" in log
    assert "taking over" not in log
    assert until(lambda: [ping("ctl1"), ping("ctl2")] == [BOTH_UP, BOTH_UP], TIMEOUT + 30)


def test_from_a_crash_through_a_run_to_the_way_back(tmp_path: Path, jobs: list[str]):
    assert [ping(name) for name in ("ctl1", "ctl2")] == [BOTH_UP, BOTH_UP]
    on("ctl1", "systemctl kill --signal=KILL slurmctld")
    killed = time.monotonic()
    assert until(lambda: submits("ctl2") != "", TAKE_OVER + 30)
    print(f"submissions again {time.monotonic() - killed:.0f} s after kill -9")
    assert time.monotonic() - killed < TAKE_OVER
    assert (ping("ctl1"), writer("ctl1")) == (ONLY_STANDBY, 1)

    # A run changes what is in force, and leaves the control where it is.
    output = apply(tmp_path, *CHANGED)
    assert "ctl1 is the primary and does not run; ctl2 is in charge." in output
    assert (killwait("ctl2"), daemon("ctl1"), ping("ctl1"), writer("ctl2")) == ("47 sec", "failed 0", ONLY_STANDBY, 1)
    assert [on(name, "grep KillWait /etc/slurm/slurm.conf") for name in ("ctl1", "ctl2")] == ["KillWait=47\n"] * 2
    again = apply(tmp_path, *CHANGED)
    assert (changes(again), daemon("ctl1"), writer("ctl2")) == ({}, "failed 0", 1)

    # Verify is not silent about it.
    result = run(tmp_path, *CHANGED, "--tags=scheduler", playbook="verify")  # nothing else is deployed here
    assert result.returncode == 0, result.stdout[-6000:]
    said = " ".join((result.stdout + result.stderr).split())
    assert "slurmctld of the primary controller: expected in charge of Slurm, found it does not run; up: ctl2" in said

    # Back on purpose, then forth and back.
    predicted = take_over(tmp_path, "ctl1", "--check")
    assert (changes(predicted), daemon("ctl1"), writer("ctl2")) == ({"ctl1": 1}, "failed 0", 1)
    assert changes(take_over(tmp_path, "ctl1")) == {"ctl1": 1}
    assert (ping("ctl1"), ping("ctl2"), writer("ctl2"), killwait("ctl1")) == (BOTH_UP, BOTH_UP, 0, "47 sec")
    assert changes(take_over(tmp_path, "ctl1")) == {}

    assert changes(take_over(tmp_path, "ctl2", "--check")) == {"ctl2": 1}
    assert ping("ctl1") == BOTH_UP
    assert changes(take_over(tmp_path, "ctl2")) == {"ctl2": 1}
    assert (ping("ctl2"), writer("ctl1"), killwait("ctl2")) == (ONLY_STANDBY, 1, "47 sec")
    assert changes(take_over(tmp_path, "ctl2")) == {}
    assert changes(take_over(tmp_path, "ctl1")) == {"ctl1": 1}
    assert (ping("ctl1"), ping("ctl2"), writer("ctl2")) == (BOTH_UP, BOTH_UP, 0)

    apply(tmp_path)
    assert (killwait("ctl2"), changes(apply(tmp_path))) == ("30 sec", {})


@pytest.mark.parametrize("arguments", [[], ["--extra-vars=takeover_by=cpu01"], ["--extra-vars=takeover_bye=ctl1"]])
def test_a_wrong_call_touches_no_machine(tmp_path: Path, arguments: list[str]):
    result = run(tmp_path, "", "", *arguments, playbook="takeover")
    assert result.returncode != 0
    assert "takeover_by" in result.stdout
    assert "Start munge with its key" not in result.stdout
    assert [ping(name) for name in ("ctl1", "ctl2")] == [BOTH_UP, BOTH_UP]
