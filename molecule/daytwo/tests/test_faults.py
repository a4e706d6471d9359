# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong during a roll: each node ends in service or drained with a reason, no job elsewhere is lost, and a rerun converges.

tests/kit/roll_faults.yml lists the faults. `make full-daytwo` runs them.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import yaml

from lab import scenario_run
from lab.host import inspect
from lab.nodes import container_name
from lab.paths import ROOT
from lab.podman import Podman
from tests.kit import rolls
from tests.kit.reboots import SwitchOn
from tests.kit.rolls import Roll, disagreements

SCENARIO = "daytwo"
ssh, states = partial(rolls.ssh, SCENARIO), partial(rolls.states_of, SCENARIO)
CLUSTER_PATH = ROOT / "molecule/daytwo/daytwo.bedplate.yml"
NODES = ["gpu01", "gpu02", "gpu03", "gpu04"]
ROLLED = ["gpu03", "gpu04"]
NODE = "gpu03"
NOTE = "/run/bedplate/reboot-wanted/node_tuning"
FAULTS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "tests/kit/roll_faults.yml").read_text())["faults"]
pytestmark = pytest.mark.full_in("daytwo")


def update(words: str) -> None:
    ssh("ctl1", f"scontrol update nodename={NODE} {words}")


def pause(seconds: float, then: Callable[[], object]) -> None:
    """Do something after some seconds, beside the roll."""
    threading.Timer(seconds, then).start()


@dataclass
class Stage:
    """A roll of two nodes that want a reboot, machines that start again, and what a fault does."""

    machines: SwitchOn
    roll: Roll
    undo: list[Callable[[], object]] = field(default_factory=list)

    def drained(self, do: Callable[[], object]) -> None:
        """Do something when the first node is drained."""
        self.roll.at += [(r"^PLAY \[Update nodes", lambda: None), (r"^TASK \[Drain ", lambda: do())]

    def podman(self, *words: str) -> None:
        Podman(inspect())(*words, container_name(f"molecule-{SCENARIO}", NODE))

    def link(self, state: str) -> None:
        """Take the node's cable out, or put it in again."""
        index = ssh(NODE, "cat /sys/class/net/eth0/iflink").strip() if state == "down" else self.index
        self.index = index
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        name = next(line.split(": ")[1].split("@")[0] for line in links.splitlines() if line.startswith(f"{index}: "))
        subprocess.run(["ip", "link", "set", name, state], check=True)


def reboots() -> bool:
    return "REBOOT_ISSUED" in ssh("ctl1", f"scontrol show node {NODE}").replace("REBOOT^", "REBOOT_ISSUED")


def when_it_reboots(do: Callable[[], object]) -> None:
    """Do something when Slurm has issued the reboot of the first node."""

    def watch() -> None:
        for _ in range(600):
            if reboots():
                do()
                return
            time.sleep(0.5)

    threading.Thread(target=watch, daemon=True).start()


def killed_after_its_drain(stage: Stage) -> None:
    stage.drained(stage.roll.kill)


def killed_during_the_change(stage: Stage) -> None:
    stage.roll.at += [(r"^PLAY \[Update nodes", lambda: None), (r"^TASK \[bedplate.cluster.slurm : ", stage.roll.kill)]


def killed_during_the_reboot(stage: Stage) -> None:
    when_it_reboots(stage.roll.kill)


def killed_before_it_is_resumed(stage: Stage) -> None:
    stage.roll.at += [
        (r"^PLAY \[Update nodes", lambda: None),
        (r"^TASK \[Read reasons for another reboot", stage.roll.kill),
    ]


def killed_before_its_end(stage: Stage) -> None:
    stage.roll.at += [(r"^PLAY \[Update nodes", lambda: None), (r"^TASK \[Resume ", stage.roll.kill)]


def node_off_during_the_change(stage: Stage) -> None:
    stage.machines.stay_off.add(NODE)
    stage.drained(lambda: stage.podman("kill"))
    stage.undo.append(stage.machines.stay_off.clear)


def node_that_never_returns(stage: Stage) -> None:
    stage.machines.stay_off.add(NODE)
    stage.roll.arguments += ("-e", "roll_reboot_deadline=40")
    stage.undo.append(stage.machines.stay_off.clear)


def node_that_returns_after_resume_timeout(stage: Stage) -> None:
    stage.machines.stay_off.add(NODE)
    when_it_reboots(lambda: pause(130, stage.machines.stay_off.clear))


def slurmctld_killed(stage: Stage) -> None:
    def kill() -> None:
        ssh("ctl1", "systemctl kill --signal=KILL slurmctld")
        pause(20, lambda: ssh("ctl1", "systemctl reset-failed slurmctld; systemctl start slurmctld"))

    stage.drained(kill)


def database_away(stage: Stage) -> None:
    def away() -> None:
        ssh("ctl1", "systemctl stop slurmdbd")
        pause(60, lambda: ssh("ctl1", "systemctl start slurmdbd"))

    stage.drained(away)
    stage.undo.append(lambda: ssh("ctl1", "systemctl start slurmdbd"))


def disk_full(stage: Stage) -> None:
    """Edit a file of the node's slurmd on a file system without space: the roll cannot write it."""
    full = (
        "mkdir -p /full && mount -t tmpfs -o size=512k tmpfs /full && cp -a /etc/default/. /full/ && "
        "echo '# by hand' >> /full/slurmd && (cat /dev/zero > /full/ballast; true) 2>/dev/null && mount --bind /full /etc/default"
    )
    ssh(NODE, full)
    stage.undo.append(lambda: scenario_run.ssh(SCENARIO, "root", NODE, "umount /etc/default /full"))


def network_cut_for_30_seconds(stage: Stage) -> None:
    def cut() -> None:
        stage.link("down")
        pause(30, lambda: stage.link("up"))

    stage.drained(cut)


def person_drains(stage: Stage) -> None:
    stage.drained(lambda: update("state=drain reason='fan is loud'"))


def person_resumes(stage: Stage) -> None:
    stage.drained(lambda: update("state=resume"))


def person_edits_the_reason(stage: Stage) -> None:
    def edit() -> None:
        reason = states()[NODE].split(" ", 1)[1]
        update(f"reason='{reason} and keep it for Ann'")

    stage.drained(edit)


def person_cancels_the_reboot(stage: Stage) -> None:
    stage.machines.stay_off.add(NODE)
    when_it_reboots(
        lambda: (ssh("ctl1", f"scontrol cancel_reboot {NODE} || true"), pause(5, stage.machines.stay_off.clear))
    )


def second_roll(stage: Stage) -> None:
    def second() -> None:
        other = Roll(SCENARIO, CLUSTER_PATH, ("--limit", "gpu04"))
        assert other.run() == 2
        assert "another roll works on the nodes" in other.text

    stage.drained(second)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """A job on a node that no roll here touches."""
    job = ssh(
        "ctl1", "sbatch --parsable --account=research --nodelist=gpu01 --output=/dev/null --mem=50 --wrap='sleep 7200'"
    ).strip()
    yield job
    ssh("ctl1", f"scancel {job}")


@pytest.fixture
def stage() -> Iterator[Stage]:
    for node in ROLLED:
        ssh(node, f"mkdir -p {NOTE.rpartition('/')[0]}; echo 'the running kernel lacks iommu=pt' > {NOTE}")
    with SwitchOn(SCENARIO) as machines:
        yield Stage(machines, roll())


def roll() -> Roll:
    limit = ("--limit", ",".join(ROLLED))
    return Roll(
        SCENARIO,
        CLUSTER_PATH,
        ("-e", "roll_percent=50", "-e", "roll_patience=5", "-e", "roll_reboot_deadline=240", *limit),
    )


def is_drained_with_a_reason(line: str) -> bool:
    state, _, reason = line.partition(" ")
    return state.rstrip("*~#!%$@^-+") in ("drain", "drng", "down", "boot") and reason not in ("", "none")


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str, stage: Stage, elsewhere: str) -> None:
    fault = FAULTS[name]
    globals()[name](stage)
    status = stage.roll.run()
    print(stage.roll.text[-5000:])
    assert status == fault["status"]
    now = states()
    assert all(
        line == "idle none" or is_drained_with_a_reason(line) for node, line in now.items() if node != "gpu01"
    ), now
    if reason := fault.get("reason"):
        assert reason in now[NODE]
    if status != -9:
        assert disagreements(stage.roll.report, now, NODES) == []
    else:
        assert stage.roll.report["outcome"] == "stopped"
    if outcome := fault.get("outcome"):
        assert stage.roll.report["nodes"][NODE]["outcome"] == outcome
    # What a person or the fault did is undone, as an operator would.
    for undo in stage.undo:
        undo()
    if fault.get("person"):
        update("state=resume")
    wait_for_machines()
    again = roll()
    assert again.run() == 0, again.text[-6000:]
    assert {node: line for node, line in states().items() if node != "gpu01"} == dict.fromkeys(NODES[1:], "idle none")
    assert disagreements(again.report, states(), NODES) == []
    assert all(scenario_run.ssh(SCENARIO, "root", node, f"test -e {NOTE}").returncode != 0 for node in ROLLED)
    fields = ssh("ctl1", f"squeue --noheader --jobs={elsewhere} --format=%T").strip()
    assert fields == "RUNNING"
    assert ssh("ctl1", f"sacct -D -X --noheader --parsable2 --jobs={elsewhere} --format=Restarts").split() == ["0"]


def wait_for_machines() -> None:
    """Wait until the rolled nodes answer by SSH again."""
    for node in ROLLED:
        for _ in range(60):
            if scenario_run.ssh(SCENARIO, "root", node, "true").returncode == 0:
                break
            time.sleep(2)
