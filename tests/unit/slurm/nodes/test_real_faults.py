# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults during a roll, on a real Slurm: what the module and the closing play make of each, and that a second call converges."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.drain_nodes import Drain
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import (
    NodeResult,
    NodeVerb,
    Order,
    report,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.note_reasons import Note
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.out_limits import Watch
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.reboot_nodes import Reboot
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.resume_nodes import Resume
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import roll_outcome
from tests.unit.slurm.nodes.real_slurm import NODES, RealSlurm

pytestmark = [pytest.mark.daemons, pytest.mark.tools("slurmctld", "slurmd", "scontrol", "sbatch")]
NODE = "n3"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    with RealSlurm(tmp_path_factory.mktemp("slurm")) as one:
        yield one


@pytest.fixture(autouse=True)
def in_service(slurm: RealSlurm) -> Iterator[str]:
    """A job on another node outlives each fault; afterwards all nodes are in service."""
    job = slurm.submit("n1", 3600)
    yield job
    assert (slurm.job(job)["JobState"], slurm.job(job)["Restarts"]) == ("RUNNING", "0")
    slurm.scontrol("--quiet", "update", f"jobid={job}", "timelimit=1")
    slurm.stay_off.clear()
    slurm.late = 2.0
    os.system(f"SLURM_CONF={slurm.conf} scancel --full --signal=KILL {job}; SLURM_CONF={slurm.conf} scancel {job}")
    for name in NODES[1:]:
        slurm.scontrol("update", f"nodename={name}", "state=resume")
    slurm.until(lambda nodes: all(node.states == {"IDLE"} and node.answers for node in nodes.values()), 30)


def verb(kind: type[NodeVerb], slurm: RealSlurm, deadline: float = 30, run: str = "r1") -> NodeResult:
    """Run a verb on one node."""
    order = Order((NODE,), "roll", run, "GPU driver, reboot", deadline)
    return kind(order, slurm.read, slurm.change).run()[NODE]


def rolled(slurm: RealSlurm, during: Callable[[], object] | None = None) -> dict[str, Any]:
    """Drain, change, reboot and resume as the playbook does; return the variables that it would have. `during` acts during the change."""
    variables: dict[str, Any] = {"__roll_drained": _registered(verb(Drain, slurm))}
    if not goes_on(variables, "drained"):
        return variables
    if during:
        during()
    variables |= {"__roll_step": "changed", "__roll_wanted": {"reasons": {"gpu_driver": "x"}, "in_use": []}}
    variables["__roll_rebooted"] = _registered(verb(Reboot, slurm, 60))
    if goes_on(variables, "changed"):
        variables |= {"__roll_step": "verified"}
        variables["__roll_resumed"] = _registered(verb(Resume, slurm))
    return variables


def _registered(result: NodeResult) -> dict[str, Any]:
    return {"nodes": {NODE: result.facts()}, "now": "2026-11-26T12:00:00"}


def goes_on(variables: dict[str, Any], after: str) -> bool:
    return roll_outcome.goes_on(lambda _: variables, NODE, after)


def closed(slurm: RealSlurm, variables: dict[str, Any]) -> tuple[str, bool]:
    """Return what the closing play reports, and compare it with Slurm."""
    nodes = slurm.read().nodes
    now = {"nodes": {NODE: report([NODE], nodes)[NODE].facts()}, "now": "2026-11-26T12:00:00"}
    plan = {"run": "r1", "hosts": [NODE], "open": [], "left": {}, "problems": {}, "parts": {NODE: "GPU driver"}}
    found = roll_outcome.outcomes(plan, lambda _: variables, now)[NODE]
    own = nodes[NODE].own
    assert found.drained == (own is not None and own.is_of("roll", "r1"))
    if found.outcome == "done":
        assert not nodes[NODE].is_out
    if found.outcome == "left":
        assert nodes[NODE].is_out
    return found.outcome, found.drained


def converges(slurm: RealSlurm) -> None:
    """A rerun ends with the node in service."""
    slurm.until(lambda nodes: NODE not in slurm.booting and nodes[NODE].answers and not nodes[NODE].reboots, 60)
    variables = rolled(slurm)
    assert closed(slurm, variables) == ("done", False), variables
    assert slurm.read().nodes[NODE].states == {"IDLE"}


def later(seconds: float, do: Callable[[], object]) -> None:
    threading.Timer(seconds, do).start()


def person(slurm: RealSlurm, *words: str) -> Callable[[], object]:
    return lambda: slurm.scontrol("update", f"nodename={NODE}", *words)


def killed_after(kind: type[NodeVerb], slurm: RealSlurm) -> None:
    """Run a verb in a process that is killed right after its command."""

    def work() -> None:
        def change(argv: Sequence[str]) -> str:
            slurm.change(list(argv))
            os.kill(os.getpid(), signal.SIGKILL)
            return ""

        kind(Order((NODE,), "roll", "r1", "GPU driver, reboot", 30), slurm.read, change).run()

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


def test_a_roll_without_a_fault(slurm: RealSlurm):
    before = len(slurm.boots)
    assert closed(slurm, rolled(slurm)) == ("done", False)
    assert slurm.boots[before:] == [NODE]


@pytest.mark.parametrize("steps", [[Drain], [Drain, Reboot], [Drain, Reboot, Resume]], ids=len)
def test_a_process_that_is_killed_after_a_command(slurm: RealSlurm, steps: list[type[NodeVerb]]):
    for kind in steps[:-1]:
        verb(kind, slurm)
    before = len(slurm.boots)
    killed_after(steps[-1], slurm)
    if steps[-1] is Reboot:
        # The node is away; it is waited for, and not rebooted twice at once.
        slurm.until(lambda nodes: not nodes[NODE].reboots and nodes[NODE].answers)
        assert slurm.boots[before:] == [NODE]
    if steps[-1] is not Resume:
        own = slurm.read().nodes[NODE].own
        assert own
        assert own.run == "r1"
    converges(slurm)


def test_jobs_are_waited_for_and_none_is_hurt(slurm: RealSlurm):
    job = slurm.submit(NODE, 4)
    assert closed(slurm, rolled(slurm)) == ("done", False)
    assert (slurm.job(job)["JobState"], slurm.job(job)["ExitCode"], slurm.job(job)["Restarts"]) == (
        "COMPLETED",
        "0:0",
        "0",
    )


def test_a_job_that_outlives_the_deadline_keeps_its_node(slurm: RealSlurm):
    job = slurm.submit(NODE, 6)
    result = verb(Drain, slurm, deadline=1)
    assert (result.outcome, result.jobs) == ("draining", (job,))
    assert closed(slurm, {"__roll_drained": _registered(result)}) == ("waiting", True)
    converges(slurm)
    assert slurm.job(job)["Restarts"] == "0"


def test_a_suspended_job_forbids_the_reboot(slurm: RealSlurm):
    job = slurm.submit(NODE, 5)
    slurm.scontrol("suspend", job)
    assert verb(Drain, slurm, deadline=2).outcome == "draining"
    before = len(slurm.boots)
    assert verb(Reboot, slurm).outcome == "held"
    assert len(slurm.boots) == before
    slurm.scontrol("resume", job)
    converges(slurm)


def test_a_node_that_is_off_after_its_drain(slurm: RealSlurm):
    verb(Drain, slurm)
    slurm.kill(NODE)
    # slurmctld notices by a message that gets no answer. 26.05 sends it within ten seconds.
    slurm.scontrol("reboot", NODE)
    slurm.until(lambda nodes: not nodes[NODE].answers or "REBOOT_ISSUED" in nodes[NODE].states, 60)
    assert verb(Resume, slurm, 1).outcome in ("held", "failed")
    slurm.start_node(NODE, booted=True)
    slurm.until(lambda nodes: nodes[NODE].answers and not nodes[NODE].reboots, 60)
    converges(slurm)


def test_a_node_that_does_not_return(slurm: RealSlurm):
    slurm.stay_off.add(NODE)
    verb(Drain, slurm)
    result = verb(Reboot, slurm, 3)
    assert (result.outcome, result.why) == ("failed", "not back from its reboot")
    variables = {
        "__roll_drained": {"nodes": {NODE: {"outcome": "drained"}}},
        "__roll_step": "changed",
        "__roll_wanted": {"reasons": {"x": "y"}},
        "__roll_rebooted": _registered(result),
    }
    assert closed(slurm, variables) == ("failed", True)
    # Nor is it given jobs: slurmctld would start them on a machine that is off.
    assert verb(Resume, slurm, 1).outcome == "held"
    slurm.stay_off.clear()
    slurm.until(lambda nodes: not nodes[NODE].reboots and nodes[NODE].answers, 30)
    converges(slurm)


def test_slurmctld_is_killed_while_a_node_drains(slurm: RealSlurm):
    slurm.submit(NODE, 14)

    def killed() -> None:
        slurm.kill("slurmctld")
        time.sleep(3)
        slurm.start_controller()

    # Before it has saved its state, which takes it five seconds and more, it would forget the drain; then nobody would work on the node.
    later(9, killed)
    variables = rolled(slurm)
    assert closed(slurm, variables) == ("done", False), variables


def restart(slurm: RealSlurm) -> None:
    """Restart slurmctld: until its nodes register it has them as unknown."""
    process = int((slurm.folder / "slurmctld.pid").read_text())
    slurm.scontrol("shutdown", "slurmctld")
    end = time.monotonic() + 20
    while Path(f"/proc/{process}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    slurm.start_controller()


def test_slurmctld_restarts_right_before_a_verb(slurm: RealSlurm):
    restart(slurm)
    assert verb(Drain, slurm).outcome == "drained"
    restart(slurm)
    assert verb(Resume, slurm).outcome == "resumed"
    converges(slurm)


def test_a_reason_with_the_words_of_slurm_stays_the_runs_own_over_a_reboot(slurm: RealSlurm):
    verb(Drain, slurm)
    order = Order((NODE,), "roll", "r1", "failed: DOWN (driver : reboot issued; set by root)", 30)
    assert Note(order, slurm.read, slurm.change).run()[NODE].outcome == "drained"
    converges(slurm)


@pytest.mark.parametrize(
    ("words", "outcome", "reason"),
    [
        (["state=drain", "reason=fan is loud"], "left", "fan is loud"),
        (["state=resume"], "waiting", ""),
        (["reason=bedplate:roll:r1: GPU driver, reboot, keep it for Ann"], "left", "keep it for Ann"),
    ],
    ids=["drains", "resumes", "edits"],
)
def test_a_person_takes_the_node_during_the_change(slurm: RealSlurm, words: list[str], outcome: str, reason: str):
    before = len(slurm.boots)
    variables = rolled(slurm, person(slurm, *words))
    slurm.until(lambda nodes: nodes[NODE].answers)
    assert closed(slurm, variables) == (outcome, False), variables
    assert reason in slurm.read().nodes[NODE].reason
    assert len(slurm.boots) == before
    slurm.scontrol("update", f"nodename={NODE}", "state=resume")
    converges(slurm)


def test_a_person_cancels_the_reboot(slurm: RealSlurm):
    slurm.stay_off.add(NODE)
    verb(Drain, slurm)
    later(1.5, lambda: slurm.scontrol("cancel_reboot", NODE))
    result = verb(Reboot, slurm, 4)
    # An issued reboot cannot be cancelled: the node is on its way.
    assert result.outcome in ("failed", "held")
    slurm.stay_off.clear()
    slurm.until(lambda nodes: nodes[NODE].answers and not nodes[NODE].reboots, 30)
    converges(slurm)


def test_health_takes_a_node_that_was_resumed_and_the_next_batch_does_not_begin(slurm: RealSlurm):
    variables = rolled(slurm)
    reason = written("health", "limiter", "gpu-count: 7 of 8 GPUs")
    later(1.5, person(slurm, "state=drain", f"reason={reason}"))
    watched = (Watch("canaries", frozenset({NODE}), 0),)
    order = Order(("n4",), "roll", "r1", "GPU driver", 30, watched=watched, settle=20)
    begin = time.monotonic()
    drain = Drain(order, slurm.read, slurm.change)
    assert drain.run()["n4"].outcome == "limited"
    assert time.monotonic() - begin < 15
    assert drain.sick == {NODE: "gpu-count: 7 of 8 GPUs"}
    assert slurm.read().nodes["n4"].states == {"IDLE"}
    assert closed(slurm, variables) == ("failed", False)
    # A person takes the node over: it counts no more.
    person(slurm, "reason=fan is loud")()
    assert (
        Drain(Order(("n4",), "roll", "r1", "x", 0, watched=watched), slurm.read, slurm.change).run()["n4"].outcome
        == "drained"
    )


def test_another_run_beside_this_one(slurm: RealSlurm):
    other = written("roll", "r2", "GPU driver")
    slurm.scontrol("update", f"nodename={NODE}", "state=drain", f"reason={other}")
    variables = rolled(slurm)
    assert closed(slurm, variables) == ("left", False)
    assert slurm.read().nodes[NODE].reason == other
    assert verb(Resume, slurm).outcome == "held"


def test_a_node_that_is_down_is_drained_before_its_new_machine_registers_and_resumed_after(slurm: RealSlurm):
    slurm.kill(NODE)
    # As slurmctld has it after SlurmdTimeout.
    slurm.scontrol("update", f"nodename={NODE}", "state=down", "reason=Not responding")
    order = Order((NODE,), "recover", "r1", "new host key", 30, of_slurm=True)
    drained = Drain(order, slurm.read, slurm.change).run()[NODE]
    assert (drained.outcome, drained.kind, drained.changed) == ("drained", "recover", True)

    slurm.start_node(NODE)
    # It registers, and is in service only when it is resumed.
    now = slurm.until(lambda nodes: nodes[NODE].answers)[NODE]
    assert (now.own is not None and now.own.is_of("recover", "r1"), now.is_out) == (True, True)
    resumed = Resume(order, slurm.read, slurm.change).run()[NODE]
    assert (resumed.outcome, resumed.changed) == ("resumed", True)
    slurm.until(lambda nodes: nodes[NODE].states == {"IDLE"} and nodes[NODE].answers)
