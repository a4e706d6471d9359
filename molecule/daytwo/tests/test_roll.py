# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll under jobs: each job ends once with its own exit code, a person's drain stays, and a second roll drains nobody."""

from __future__ import annotations

import re
import time
from functools import partial

from lab.paths import ROOT, ssh_config_of
from tests.kit import rolls
from tests.kit.reboots import SwitchOn, Watch
from tests.kit.rolls import Roll, disagreements

SCENARIO = "daytwo"
ssh, states = partial(rolls.ssh, SCENARIO), partial(rolls.states_of, SCENARIO)
CLUSTER_PATH = ROOT / "molecule/daytwo/daytwo.bedplate.yml"
NODES = ["gpu01", "gpu02", "gpu03", "gpu04"]
NOTE = "/run/bedplate/reboot-wanted/node_tuning"
JOBS = 40
REBOOTED: list[str] = []
"""By the first roll; the second one reboots the others."""


def roll(*arguments: str) -> Roll:
    """Return a roll of two nodes at once, which waits for jobs a short time only."""
    return Roll(SCENARIO, CLUSTER_PATH, ("-e", "roll_percent=50", "-e", "roll_patience=10", *arguments))


def submit(count: int) -> dict[str, str]:
    """Submit jobs of 5 to 30 s; return id -> the exit code that each ends with."""
    script = " ".join(
        f"sbatch --parsable --account=research --output=/dev/null --mem=50 --wrap='sleep {5 + number * 7 % 26}; exit {number % 7}';"
        for number in range(count)
    )
    ids = ssh("ctl1", script).split()
    assert len(ids) == count
    return {job: f"{number % 7}:0" for number, job in enumerate(ids)}


def ended(jobs: dict[str, str]) -> dict[str, str]:
    """Wait until no job is left; return id -> exit code. A job that ran twice has two rows."""
    for _ in range(120):
        if not ssh("ctl1", "squeue --noheader --all").strip():
            break
        time.sleep(2)
    time.sleep(3)
    rows = ssh(
        "ctl1", "sacct -D --allocations --noheader --parsable2 --format=JobIDRaw,ExitCode,Restarts,State"
    ).split()
    found = [row.split("|") for row in rows if row.split("|")[0] in jobs]
    assert sorted(row[0] for row in found) == sorted(jobs)
    assert {row[2] for row in found} == {"0"}
    return {row[0]: row[1] for row in found}


def want_reboot(*nodes: str) -> None:
    """Let a role want a reboot on nodes."""
    for node in nodes:
        ssh(node, f"mkdir -p {NOTE.rpartition('/')[0]}; echo 'the running kernel lacks iommu=pt' > {NOTE}")


def test_a_preview_changes_nothing():
    want_reboot(*NODES)
    before = states()
    preview = roll("--check")
    assert preview.run() == 0, preview.text[-6000:]
    assert "batch 1, canaries: gpu01: kernel and hardware, reboot" in re.sub(r"\s+", " ", preview.text)
    # An earlier job may have been completing.
    assert states() == {node: state.replace("comp ", "idle ") for node, state in before.items()}


def test_jobs_and_a_persons_drain_outlive_a_roll():
    want_reboot(*NODES)
    jobs = submit(JOBS)
    command = ["ssh", "-F", str(ssh_config_of(f"molecule-{SCENARIO}")), "-l", "root", "ctl1"]
    fan = "scontrol update nodename=gpu04 state=drain reason='fan is loud'"
    whole = roll()
    # The canary is back, and a person takes the last node.
    whole.at.append((r"TASK \[Resume ", lambda: print(ssh("ctl1", fan))))
    with SwitchOn(SCENARIO) as machines, Watch(command) as watch:
        status = whole.run()
    print(whole.text[-8000:])
    assert status == 0
    # The person's node counts: with it and one of the batch the limit of two is reached, so the other one of the batch may have to wait.
    assert machines.started[0] == "gpu01"
    assert set(machines.started) < set(NODES)
    # A person may take a further node in the second in which the roll has reached its limit.
    assert watch.most(without=["gpu04"]) <= 2
    assert ended(jobs) == jobs
    assert states() == {**dict.fromkeys(NODES[:3], "idle none"), "gpu04": "drain fan is loud"}
    assert whole.report["nodes"]["gpu04"]["outcome"] == "left"
    REBOOTED.extend(machines.started)
    assert disagreements(whole.report, states(), NODES) == []


def test_a_rerun_rolls_what_is_left_and_then_nobody():
    ssh("ctl1", "scontrol update nodename=gpu04 state=resume")
    rest = roll()
    with SwitchOn(SCENARIO) as machines:
        assert rest.run() == 0, rest.text[-6000:]
    assert "gpu04" in machines.started
    assert sorted([*REBOOTED, *machines.started]) == NODES
    again = roll()
    with SwitchOn(SCENARIO) as machines:
        assert again.run() == 0, again.text[-6000:]
    assert "Nothing is pending." in again.text
    assert machines.started == []
    assert states() == dict.fromkeys(NODES, "idle none")
    assert (again.report["outcome"], again.report["counts"]["changed"]) == ("done", 0)
    assert disagreements(again.report, states(), NODES) == []
