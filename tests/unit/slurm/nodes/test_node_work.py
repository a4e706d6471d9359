# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run does to nodes that jobs, people, reservations and other runs hold, and to its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.drain_nodes import Drain
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_states import SlurmSilentError, Snapshot
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import (
    NodeVerb,
    Order,
    heard,
    report,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.note_reasons import Note
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.out_limits import Apart, Limit, Watch
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.reboot_nodes import Reboot
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.resume_nodes import Resume
from tests.unit.slurm.nodes.slurmctld import LONG_AGO, OWN, Slurmctld, ours, outcomes, run

OTHER = written("roll", "r2", "driver 580")
SICK = written("health", "limiter", "gpu-count: 7 of 8")
CANARY = Watch("canaries", frozenset({"n1"}), 0)


def test_a_thousand_nodes_are_one_command():
    slurm = Slurmctld.of("n[0001-1000]")
    results = run(Drain, slurm, "n[0001-1000]")
    assert set(outcomes(results).values()) == {"drained"}
    assert all(one.changed for one in results.values())
    assert slurm.commands == [["scontrol", "update", "NodeName=n[0001-1000]", "State=DRAIN", f"Reason={OWN}"]]


def test_jobs_are_waited_for_until_the_deadline():
    slurm = Slurmctld.of("n[1-2]", jobs={"7": ("RUNNING", "n1"), "8_[4-9]": ("RUNNING", "n2")})
    slurm.at = {20: lambda one: one.end("7")}
    results = run(Drain, slurm, "n[1-2]", deadline=60, patience=60)
    assert outcomes(results) == {"n1": "drained", "n2": "draining"}
    assert results["n2"].jobs == ("8_[4-9]",)
    assert 60 <= slurm.now < 62


def test_free_nodes_wait_for_the_others_of_their_batch_only_so_long():
    slurm = Slurmctld.of("n[1-2]", jobs={"7": ("RUNNING", "n2")})
    run(Drain, slurm, "n[1-2]", deadline=6000, patience=30)
    assert 30 <= slurm.now < 50


def test_without_a_free_node_the_call_waits_only_so_long():
    slurm = Slurmctld.of("n[1-2]", jobs={"7": ("RUNNING", "n[1-2]")})
    run(Drain, slurm, "n[1-2]", deadline=6000, idle_patience=100)
    assert 100 <= slurm.now < 120


def test_a_node_that_gets_free_in_time_waits_for_the_others():
    slurm = Slurmctld.of("n[1-2]", jobs={"7": ("RUNNING", "n1"), "8": ("RUNNING", "n2")})
    slurm.at = {90: lambda one: one.end("7")}
    run(Drain, slurm, "n[1-2]", deadline=6000, patience=60, idle_patience=100)
    assert 150 <= slurm.now < 180


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("DRAIN", "fan is loud"),
        ("DRAIN", OWN.replace("driver 580", "driver 580, keep it for Ann")),
        ("DRAIN", OWN + " keep it for Ann"),
        ("DRAIN", OWN + " : Kill task failed"),
        ("DRAIN", OTHER),
        ("DRAIN", written("upgrade", "r1", "driver 580")),
        ("DOWN", "Not responding"),
        ("POWERED_DOWN", ""),
    ],
)
@pytest.mark.parametrize("verb", [Drain, Reboot, Resume, Note])
def test_a_node_that_others_have_out_of_service_stays_as_it_is(verb: type[NodeVerb], state: str, reason: str):
    slurm = Slurmctld.of("n1")
    slurm.states["n1"].add(state)
    slurm.reasons = {"n1": reason} if reason else {}
    results = run(verb, slurm, "n1", deadline=10)
    assert outcomes(results) == {"n1": "held"}
    assert not slurm.commands
    assert slurm.reasons == ({"n1": reason} if reason else {})


def test_a_node_whose_reboot_a_person_requested_is_not_drained():
    slurm = Slurmctld.of("n1", jobs={"7": ("RUNNING", "n1")}, reasons={"n1": "reboot requested"})
    slurm.states["n1"].add("REBOOT_REQUESTED")
    assert outcomes(run(Drain, slurm, "n1")) == {"n1": "held"}
    assert slurm.reasons == {"n1": "reboot requested"}


def test_a_node_in_a_reservation_of_others_is_drained_only_on_request():
    slurm = Slurmctld.of("n1", reservations={"course": "n1"})
    results = run(Drain, slurm, "n1")
    assert "course" in results["n1"].why
    assert not slurm.commands
    assert outcomes(run(Drain, slurm, "n1", reserved=True)) == {"n1": "drained"}


def test_a_node_in_the_runs_own_reservation_is_drained():
    slurm = Slurmctld.of("n[1-2]", reservations={"bedplate_roll_r1": "n[1-2]", "course": "n2"})
    results = run(Drain, slurm, "n[1-2]", reservation="bedplate_roll_r1")
    assert outcomes(results) == {"n1": "drained", "n2": "held"}
    assert results["n2"].why == "in the active reservation course"


def test_a_node_whose_reservation_begins_later_is_drained():
    slurm = Slurmctld.of("n1", reservations={"course": "n1"}, inactive={"course"})
    assert outcomes(run(Drain, slurm, "n1")) == {"n1": "drained"}


def test_nodes_that_are_out_anyway_count():
    slurm = Slurmctld.of("n[1-8]")
    slurm.person("n8", "fan", "DRAIN")
    limit = Limit("partition gpu", frozenset(slurm.states), 3)
    results = run(Drain, slurm, "n[1-4]", limits=(limit,))
    assert outcomes(results) == {"n1": "drained", "n2": "drained", "n3": "limited", "n4": "limited"}
    assert "3 of at most 3 nodes are out: n1, n2, n8" in results["n3"].why


def test_a_node_that_waits_for_the_limit_is_drained_when_another_is_back():
    slurm = Slurmctld.of("n[1-2]")
    slurm.person("n2", "fan", "DRAIN")
    slurm.at = {10: lambda one: one.person("n2", "")}
    limit = Limit("partition gpu", frozenset(slurm.states), 1)
    assert outcomes(run(Drain, slurm, "n1", limits=(limit,), deadline=60)) == {"n1": "drained"}


def test_a_node_that_is_out_already_needs_no_room_below_a_limit_for_its_drain():
    """It is down since its late reboot, and is drained again."""
    slurm = Slurmctld.of("n[1-2]", reasons={"n1": f"{OWN} : reboot issued : ResumeTimeout reached"})
    slurm.states["n1"] = {"DOWN"}
    limit = Limit("partition gpu", frozenset(slurm.states), 1)
    assert outcomes(run(Drain, slurm, "n[1-2]", limits=(limit,))) == {"n1": "drained", "n2": "limited"}


def test_below_one_switch_nodes_of_one_batch_are_drained_one_after_the_other():
    slurm = Slurmctld.of("n[1-2]")
    ours(slurm, "n1")
    apart = (Apart("switch leaf1", frozenset({"n1", "n2"})),)
    assert outcomes(run(Drain, slurm, "n[1-2]", apart=apart)) == {"n1": "drained", "n2": "drained"}


def test_below_one_switch_no_node_is_drained_beside_one_of_another_batch():
    slurm = Slurmctld.of("n[1-4]")
    ours(slurm, "n1")
    apart = (Apart("switch leaf1", frozenset({"n1", "n2"})), Apart("switch leaf2", frozenset({"n3", "n4"})))
    results = run(Drain, slurm, "n[2-3]", apart=apart)
    assert outcomes(results) == {"n2": "limited", "n3": "drained"}
    assert "switch leaf1: n1" in results["n2"].why
    # Nor does a node hold back others for which the run of another kind may take days.
    slurm.person("n1", written("health", "r3", "ecc"), "DRAIN")
    assert outcomes(run(Drain, slurm, "n2", apart=apart)) == {"n2": "drained"}
    # A person's drain is no batch.
    slurm.person("n4", "fan", "DRAIN")
    assert outcomes(run(Drain, slurm, "n3", apart=apart)) == {"n3": "drained"}


@pytest.mark.parametrize(("reason", "state"), [("", "IDLE"), ("fan", "DRAIN"), (OTHER, "DRAIN")])
def test_a_node_that_a_person_takes_over_while_it_drains_is_not_drained_again(reason: str, state: str):
    slurm = Slurmctld.of("n1", jobs={"7": ("RUNNING", "n1")})
    slurm.at = {5: lambda one: one.person("n1", reason, state)}
    assert outcomes(run(Drain, slurm, "n1", deadline=30)) == {"n1": "held"}
    assert len(slurm.commands) == 1


def test_a_node_of_this_run_that_a_person_resumes_during_a_second_call_is_not_drained_again():
    slurm = Slurmctld.of("n1", jobs={"7": ("RUNNING", "n1")})
    ours(slurm, "n1")
    slurm.at = {5: lambda one: one.person("n1", "")}
    results = run(Drain, slurm, "n1", deadline=30)
    assert (results["n1"].outcome, results["n1"].why) == ("held", "resumed by others")
    assert not slurm.commands


def test_a_reason_that_slurm_left_behind_owns_nothing():
    """Without accounting storage a node keeps its reason when it is resumed."""
    slurm = Slurmctld.of("n1", reasons={"n1": OWN})
    result = run(Resume, slurm, "n1")["n1"]
    assert (result.outcome, result.kind, result.run, result.since) == ("resumed", "", "", "")
    assert outcomes(run(Reboot, slurm, "n1")) == {"n1": "held"}
    assert not slurm.commands
    assert outcomes(run(Drain, slurm, "n1")) == {"n1": "drained"}


def test_a_node_without_its_drain_after_a_late_reboot_is_drained_again():
    """22.05 and 23.02 take the drain off it."""
    slurm = Slurmctld.of("n1", reasons={"n1": f"{OWN} : reboot issued : ResumeTimeout reached"})
    slurm.states["n1"] = {"DOWN"}
    results = run(Drain, slurm, "n1")
    assert (results["n1"].outcome, results["n1"].changed) == ("drained", True)
    assert slurm.states["n1"] == {"DOWN", "DRAIN"}


def test_a_node_whose_reboot_is_under_way_is_not_yet_drained():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    run(Reboot, slurm, "n1")
    assert outcomes(run(Drain, slurm, "n1")) == {"n1": "draining"}
    slurm.at = {20: lambda one: one.back("n1")}
    assert outcomes(run(Drain, slurm, "n1", deadline=60)) == {"n1": "drained"}


@pytest.mark.parametrize("state", ["", "REBOOT_REQUESTED", "REBOOT_ISSUED"])
def test_a_report_and_a_note_call_a_node_drained_only_when_it_stays_up(state: str):
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    slurm.states["n1"] |= {state} - {""}
    expected = "draining" if state else "drained"
    assert outcomes(report(["n1"], slurm.read().nodes)) == {"n1": expected}
    assert outcomes(run(Note, slurm, "n1")) == {"n1": expected}
    assert not slurm.commands


def test_a_second_call_drains_nobody():
    slurm = Slurmctld.of("n[1-2]")
    run(Drain, slurm, "n[1-2]")
    results = run(Drain, slurm, "n[1-2]")
    assert len(slurm.commands) == 1
    assert not any(one.changed for one in results.values())


def test_one_node_that_slurm_refuses_does_not_hold_back_the_others():
    slurm = Slurmctld.of("n[1-3]", refuses={"n2"})
    results = run(Drain, slurm, "n[1-3]")
    assert outcomes(results) == {"n1": "drained", "n2": "failed", "n3": "drained"}
    assert "Invalid node state" in results["n2"].why
    assert [results[name].changed for name in ("n1", "n3")] == [True, True]


@pytest.mark.parametrize("verb", [Drain, Reboot, Resume])
def test_after_a_refusal_no_node_gets_a_command_twice(verb: type[NodeVerb]):
    slurm = Slurmctld.of("n[1-8]", refuses={"n2"})
    if verb is not Drain:
        ours(slurm, "n[1-8]")
    results = run(verb, slurm, "n[1-8]")
    words = [argv[2].partition("=")[2] or argv[2] for argv in slurm.commands]
    assert words == ["n[1-8]", "n2"]
    assert (results["n2"].outcome, results["n2"].changed) == ("failed", False)
    assert all(one.changed for name, one in results.items() if name != "n2")


def test_a_node_that_a_person_takes_over_after_a_refusal_is_left_alone():
    slurm = Slurmctld.of("n[1-3]", refuses={"n2", "n3"})
    change = slurm.change

    def while_n2_is_refused(argv: Any) -> str:
        if argv[2] == "NodeName=n2":
            slurm.person("n3", "fan", "DRAIN")
        return change(argv)

    slurm.change = while_n2_is_refused  # type: ignore[method-assign]
    assert outcomes(run(Drain, slurm, "n[1-3]")) == {"n1": "drained", "n2": "failed", "n3": "held"}
    assert slurm.reasons["n3"] == "fan"


def test_a_node_that_a_person_takes_and_gives_back_between_two_commands_is_held():
    slurm = Slurmctld.of("n[1-2]", refuses={"n1", "n2"})
    read, taken = slurm.read, ["", "", "", "fan", ""]

    def by_then() -> Snapshot:
        slurm.person("n2", taken.pop(0), "DRAIN")
        return read()

    slurm.read = by_then  # type: ignore[method-assign]
    results = run(Drain, slurm, "n[1-2]")
    assert (results["n2"].outcome, results["n2"].why) == ("held", "changed by others")
    assert [argv[2] for argv in slurm.commands] == ["NodeName=n[1-2]", "NodeName=n1"]


@pytest.mark.parametrize(("reason", "why"), [("", "resumed by others"), ("fan", "fan"), (OTHER, "roll r2")])
def test_a_node_that_a_person_takes_over_while_its_reason_is_written_is_held(reason: str, why: str):
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    slurm.reasons["n1"] = written("roll", "r1", "before")
    change = slurm.change

    def just_after(argv: Any) -> str:
        said = change(argv)
        slurm.person("n1", reason, "DRAIN")
        return said

    slurm.change = just_after  # type: ignore[method-assign]
    results = run(Note, slurm, "n1")
    assert results["n1"].outcome == "held"
    assert why in results["n1"].why


@pytest.mark.parametrize("verb", [Drain, Reboot, Resume])
def test_every_release_can_read_the_names_in_a_command(verb: type[NodeVerb]):
    """Slurm before 23.11 refuses text after the last bracket."""
    slurm = Slurmctld.of("n[1-2]-ib")
    if verb is not Drain:
        ours(slurm, "n[1-2]-ib")
        slurm.reasons.update(dict.fromkeys(slurm.states, f"{OWN} : reboot issued"))
    run(verb, slurm, "n[1-2]-ib")
    assert {argv[2].partition("=")[2] or argv[2] for argv in slurm.commands} == {"n1-ib,n2-ib"}


def test_check_mode_waits_for_nothing():
    slurm = Slurmctld.of("n1", jobs={"7": ("RUNNING", "n1")})
    assert outcomes(run(Drain, slurm, "n1", check=True, deadline=60)) == {"n1": "draining"}
    assert not slurm.now


def test_a_call_whose_playbook_has_ended_drains_no_further_node():
    slurm = Slurmctld.of("n[1-3]", jobs={"7": ("RUNNING", "n1")})
    slurm.person("n3", "fan", "DRAIN")
    slurm.at = {10: lambda one: one.person("n3", "")}
    order = Order(("n1", "n2"), "roll", "r1", "driver 580", 60, limits=(Limit("gpu", frozenset(slurm.states), 2),))
    found = Drain(order, slurm.read, slurm.change, False, slurm.sleep, lambda: slurm.now, lambda: True).run()
    assert outcomes(found) == {"n1": "draining", "n2": "limited"}
    assert (slurm.now, len(slurm.commands)) == (1, 1)


def test_check_mode_predicts_and_changes_nothing():
    slurm = Slurmctld.of("n[1-3]", jobs={"7": ("RUNNING", "n2")})
    limit = Limit("partition gpu", frozenset(slurm.states), 2)
    results = run(Drain, slurm, "n[1-3]", check=True, limits=(limit,), deadline=60)
    assert outcomes(results) == {"n1": "drained", "n2": "draining", "n3": "limited"}
    assert not slurm.commands
    assert [one.changed for one in results.values()] == [True, True, False]
    assert not slurm.now
    ours(slurm, "n1")
    assert outcomes(run(Reboot, slurm, "n1", check=True)) == {"n1": "rebooted"}
    assert outcomes(run(Resume, slurm, "n1", check=True)) == {"n1": "resumed"}
    assert not slurm.commands


@pytest.mark.parametrize("reason", [OWN, "gres/gpu count reported lower than configured (1 < 2)"])
@pytest.mark.parametrize("verb", [Reboot, Resume])
def test_a_node_with_other_hardware_has_failed_and_stays_out(verb: type[NodeVerb], reason: str):
    slurm = Slurmctld.of("n1", reasons={"n1": reason})
    slurm.states["n1"] |= {"DRAIN", "INVALID_REG"}
    results = run(verb, slurm, "n1", deadline=60)
    assert outcomes(results) == {"n1": "failed"}
    assert results["n1"].why == f"registered with other hardware than slurm.conf has: {results['n1'].state}"
    assert not slurm.commands


def test_a_node_that_does_not_answer_is_resumed_only_when_it_does():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    slurm.states["n1"] |= {"NOT_RESPONDING"}
    assert outcomes(run(Resume, slurm, "n1", deadline=30)) == {"n1": "failed"}
    assert (slurm.commands, slurm.reasons) == ([], {"n1": OWN})
    slurm.at = {int(slurm.now) + 20: lambda one: one.back("n1")}
    assert outcomes(run(Resume, slurm, "n1", deadline=60)) == {"n1": "resumed"}


def test_a_result_names_the_active_reservations():
    slurm = Slurmctld.of("n[1-2]", reservations={"course": "n1", "bedplate_roll_r1": "n[1-2]"})
    results = run(Drain, slurm, "n[1-2]", reservation="bedplate_roll_r1")
    assert {name: one.facts()["reservations"] for name, one in results.items()} == {
        "n1": ["course", "bedplate_roll_r1"],
        "n2": ["bedplate_roll_r1"],
    }


def test_a_result_says_since_when_a_node_is_out_and_when_its_jobs_end():
    slurm = Slurmctld.of("n1", jobs={"7": ("RUNNING", "n1")})
    ours(slurm, "n1")
    results = run(Drain, slurm, "n1")
    assert (results["n1"].since, results["n1"].free_in) == (LONG_AGO, 3600)
    slurm.end("7")
    assert run(Resume, slurm, "n1")["n1"].since == LONG_AGO
    assert run(Resume, slurm, "n1")["n1"].since == ""


def test_a_node_under_reboot_is_not_resumed():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    run(Reboot, slurm, "n1")
    results = run(Resume, slurm, "n1")
    assert outcomes(results) == {"n1": "held"}
    assert len(slurm.commands) == 1


@pytest.mark.parametrize(
    ("reason", "state", "outcome"),
    [
        ("Low RealMemory (reported:1 < 100.00% of configured:2)", "DRAIN", "failed"),
        ("Node unexpectedly rebooted", "DOWN", "failed"),
        ("Prolog error", "DRAIN", "failed"),
        (written("health", "limiter", "gpu-count: 7 of 8"), "DRAIN", "failed"),
        (written("health", "limiter", "gpu-count: 7 of 8") + ", Ann looks", "DRAIN", "held"),
        ("fan is loud", "DRAIN", "held"),
    ],
)
def test_a_node_that_slurm_takes_out_again_has_failed_and_one_that_a_person_takes_is_left(
    reason: str, state: str, outcome: str
):
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    change = slurm.change

    def broken(argv: Any) -> str:
        said = change(argv)
        slurm.person("n1", reason, state)
        return said

    slurm.change = broken  # type: ignore[method-assign]
    results = run(Resume, slurm, "n1", deadline=10)
    assert outcomes(results) == {"n1": outcome}
    assert reason in results["n1"].why


def silent_after(
    slurm: Slurmctld, *names: str, states: tuple[str, ...] = ("NOT_RESPONDING",), reason: str = ""
) -> None:
    """Have nodes go silent right after their resume."""
    change = slurm.change

    def broken(argv: Any) -> str:
        said = change(argv)
        for name in names:
            slurm.states[name] |= set(states)
            if reason:
                slurm.reasons[name] = reason
        return said

    slurm.change = broken  # type: ignore[method-assign]


def test_a_node_that_is_silent_after_its_resume_is_waited_for_and_has_failed_if_it_stays_so():
    slurm = Slurmctld.of("n[1-2]")
    ours(slurm, "n[1-2]")
    silent_after(slurm, "n1")
    results = run(Resume, slurm, "n[1-2]", deadline=30)
    assert outcomes(results) == {"n1": "failed", "n2": "resumed"}
    assert results["n1"].why == "resumed, and its slurmd does not answer"
    assert slurm.now >= 30


def test_a_node_that_answers_again_after_its_resume_is_in_service():
    slurm = Slurmctld.of("n[1-2]", at={20: lambda one: one.states["n1"].discard("NOT_RESPONDING")})
    ours(slurm, "n[1-2]")
    silent_after(slurm, "n1")
    assert outcomes(run(Resume, slurm, "n[1-2]", deadline=60)) == {"n1": "resumed", "n2": "resumed"}
    assert 20 <= slurm.now < 40


def test_a_node_that_keeps_the_runs_own_reason_after_its_resume_has_failed():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    silent_after(slurm, "n1", states=("DOWN",), reason=OWN)
    assert outcomes(run(Resume, slurm, "n1", deadline=5)) == {"n1": "failed"}


@pytest.mark.parametrize("verb", [Drain, Resume])
def test_a_node_that_slurmctld_has_not_heard_of_since_its_start_is_waited_for(verb: type[NodeVerb]):
    slurm = Slurmctld.of("n1", at={5: lambda one: one.states["n1"].discard("UNKNOWN")})
    if verb is Resume:
        ours(slurm, "n1")
    slurm.states["n1"].add("UNKNOWN")
    assert outcomes(run(verb, slurm, "n1", deadline=60)) == {"n1": "drained" if verb is Drain else "resumed"}
    assert 5 <= slurm.now < 10
    assert len(slurm.commands) == 1


@pytest.mark.parametrize(("verb", "outcome"), [(Drain, "held"), (Resume, "failed")])
def test_a_node_that_slurmctld_never_hears_of_gets_no_command(verb: type[NodeVerb], outcome: str):
    slurm = Slurmctld.of("n1")
    if verb is Resume:
        ours(slurm, "n1")
    slurm.states["n1"].add("UNKNOWN")
    assert outcomes(run(verb, slurm, "n1")) == {"n1": outcome}
    assert 60 <= slurm.now < 65
    assert not slurm.commands


def test_a_report_waits_until_slurmctld_has_heard_of_the_nodes():
    slurm = Slurmctld.of("n[1-2]", at={5: lambda one: one.states["n1"].discard("UNKNOWN")})
    slurm.states["n1"].add("UNKNOWN")
    nodes = heard(slurm.read, ["n1", "n2"], slurm.sleep, lambda: slurm.now)
    assert outcomes(report(["n1"], nodes)) == {"n1": "resumed"}
    slurm.states["n2"].add("UNKNOWN")
    assert outcomes(report(["n2"], heard(slurm.read, ["n2"], slurm.sleep, lambda: slurm.now))) == {"n2": "held"}
    assert slurm.now < 70


AWAY = "slurm_update error: Unable to contact slurm controller (connect failure)"


@pytest.mark.parametrize(
    ("error", "failures", "outcome"), [(AWAY, 1, "drained"), (AWAY, 2, "failed"), ("denied", 1, "failed")]
)
def test_a_command_that_slurmctld_did_not_take_is_run_once_more(error: str, failures: int, outcome: str):
    slurm = Slurmctld.of("n1")
    change, left = slurm.change, [failures]

    def away(argv: Any) -> str:
        if left[0]:
            left[0] -= 1
            return error
        return change(argv)

    slurm.change = away  # type: ignore[method-assign]
    assert outcomes(run(Drain, slurm, "n1")) == {"n1": outcome}


def test_a_command_that_was_taken_without_an_answer_is_not_repeated():
    slurm = Slurmctld.of("n1")
    change = slurm.change

    def mute(argv: Any) -> str:
        change(argv)
        return "slurm_update error: Socket timed out on send/recv operation"

    slurm.change = mute  # type: ignore[method-assign]
    results = run(Drain, slurm, "n1")
    assert (outcomes(results), results["n1"].changed, len(slurm.commands)) == ({"n1": "drained"}, True, 1)


@pytest.mark.parametrize("state", ["POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN"])
@pytest.mark.parametrize("verb", [Drain, Reboot])
def test_a_node_that_slurm_has_switched_off_is_named_so(verb: type[NodeVerb], state: str):
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    slurm.states["n1"].add(state)
    results = run(verb, slurm, "n1", deadline=60)
    assert outcomes(results) == {"n1": "held"}
    assert results["n1"].why.startswith(f"switched off by Slurm: IDLE+{state}") or f"+{state}" in results["n1"].why
    assert not slurm.commands


def test_a_slurmctld_that_restarts_is_waited_for_and_one_that_is_gone_is_an_error():
    slurm = Slurmctld.of("n1")
    slurm.silent = range(20)
    assert outcomes(run(Drain, slurm, "n1")) == {"n1": "drained"}
    slurm = replace(Slurmctld.of("n1"), silent=range(1000))
    with pytest.raises(SlurmSilentError):
        run(Drain, slurm, "n1")
    assert not slurm.commands


def test_a_node_that_slurm_does_not_know_has_failed():
    assert outcomes(run(Drain, Slurmctld.of("n1"), "n[1-2]")) == {"n1": "drained", "n2": "failed"}


def drain(slurm: Slurmctld, nodes: str, check: bool = False, **order: Any) -> tuple[dict[str, str], Drain]:
    """Drain, and return the outcomes and the verb."""
    wanted = Order(tuple(expand(nodes)), "roll", "r1", "driver 580", **order)
    verb = Drain(wanted, slurm.read, slurm.change, check, slurm.sleep, lambda: slurm.now)
    return outcomes(verb.run()), verb


@pytest.mark.parametrize(
    ("reason", "state", "most", "outcome"),
    [
        (SICK, "DRAIN", 0, "limited"),
        (f"{SICK} : Not responding", "DRAIN", 0, "limited"),
        (SICK, "DRAIN", 1, "drained"),
        # A person's, also an edited one, and one that Slurm has left behind at a resume.
        ("fan is loud", "DRAIN", 0, "drained"),
        (f"{SICK}, Ann looks", "DRAIN", 0, "drained"),
        (SICK, "IDLE", 0, "drained"),
        (OTHER, "DRAIN", 0, "drained"),
    ],
)
def test_no_node_is_drained_while_health_has_a_resumed_one_out(reason: str, state: str, most: int, outcome: str):
    slurm = Slurmctld.of("n[1-3]")
    slurm.person("n1", reason, state)
    slurm.person("n3", SICK, "DRAIN")
    found, verb = drain(slurm, "n2", deadline=60, watched=(replace(CANARY, most=most),))
    assert found == {"n2": outcome}
    is_sick = most == 1 or outcome == "limited"
    # n3 is not of this run.
    assert verb.sick == ({"n1": "gpu-count: 7 of 8"} if is_sick else {})
    assert bool(verb.halted) == (outcome == "limited") == (slurm.commands == [])


def test_health_has_its_time_before_the_first_drain_and_the_call_ends_with_its_verdict():
    slurm = Slurmctld.of("n[1-2]")
    found, verb = drain(slurm, "n2", deadline=6000, watched=(CANARY,), settle=90)
    assert (found, verb.halted) == ({"n2": "drained"}, "")
    assert 90 <= slurm.now < 110
    slurm = Slurmctld.of("n[1-2]", at={30: lambda one: one.person("n1", SICK, "DRAIN")})
    found, verb = drain(slurm, "n2", deadline=6000, watched=(CANARY,), settle=90)
    assert (found, slurm.commands) == ({"n2": "limited"}, [])
    assert verb.halted == "canaries: health has 1 nodes out of service, of at most 0: n1"
    assert 30 <= slurm.now < 50


def test_jobs_have_their_time_after_that_of_health():
    slurm = Slurmctld.of("n[1-2]", jobs={"7": ("RUNNING", "n2")})
    drain(slurm, "n2", deadline=6000, settle=90, idle_patience=100)
    assert 190 <= slurm.now < 220


def test_a_batch_that_jobs_hold_does_not_begin_after_health_took_a_resumed_node():
    slurm = Slurmctld.of("n[1-3]", jobs={"7": ("RUNNING", "n3")})
    slurm.at = {40: lambda one: one.person("n1", SICK, "DRAIN")}
    found, verb = drain(slurm, "n[2-3]", deadline=6000, patience=600, watched=(CANARY,))
    assert (found, verb.sick) == ({"n2": "drained", "n3": "draining"}, {"n1": "gpu-count: 7 of 8"})
    assert verb.halted
    assert 40 <= slurm.now < 60


def test_a_deadline_before_the_verdict_of_health_halts_also_nodes_that_were_drained_before():
    slurm = Slurmctld.of("n[1-3]")
    ours(slurm, "n3")
    found, verb = drain(slurm, "n[2-3]", deadline=20, watched=(CANARY,), settle=90)
    assert (found, slurm.commands) == ({"n2": "limited", "n3": "drained"}, [])
    assert verb.halted


def test_check_mode_does_not_wait_for_health():
    slurm = Slurmctld.of("n[1-2]")
    assert drain(slurm, "n2", check=True, watched=(CANARY,), settle=90)[0] == {"n2": "drained"}


def test_a_call_whose_playbook_ends_while_it_waits_drains_no_further_node():
    slurm = Slurmctld.of("n[1-2]", jobs={"7": ("RUNNING", "n2")})
    slurm.states["n1"].add("DRAIN")
    slurm.reasons["n1"] = "fan is loud"
    # The limit gets free while the call sleeps, in the same second in which the playbook ends.
    slurm.at = {5: lambda one: (one.states["n1"].discard("DRAIN"), one.reasons.pop("n1"))}
    limit = Limit("partition gpu", frozenset(slurm.states), 1)
    order = Order(("n2",), "roll", "r1", "driver 580", deadline=600, limits=(limit,))
    verb = Drain(order, slurm.read, slurm.change, False, slurm.sleep, lambda: slurm.now)
    verb.abandoned = lambda: slurm.now >= 5
    assert outcomes(verb.run()) == {"n2": "limited"}
    assert not slurm.commands
    assert slurm.now < 30
