# SPDX-License-Identifier: GPL-3.0-or-later
"""What forbids the reboot of a node of a run, and when the node counts as back."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import read, written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import report
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.note_reasons import Note
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.reboot_nodes import Reboot
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.resume_nodes import Resume
from tests.unit.slurm.nodes.slurmctld import LONG_AGO, OWN, Slurmctld, ours, outcomes, run


def test_a_reboot_keeps_drain_and_reason():
    slurm = Slurmctld.of("n[1-2]")
    ours(slurm, "n[1-2]")
    slurm.at = {10: lambda one: one.back("n1"), 20: lambda one: one.back("n2")}
    assert outcomes(run(Reboot, slurm, "n[1-2]", deadline=60)) == {"n1": "rebooted", "n2": "rebooted"}
    assert slurm.commands == [["scontrol", "reboot", "n[1-2]"]]
    found = read(slurm.reasons["n1"])
    assert "DRAIN" in slurm.states["n1"]
    assert found is not None
    assert found.added == ("reboot issued",)


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_node_with_any_job_is_not_rebooted(state: str):
    slurm = Slurmctld.of("n1", jobs={"7": (state, "n1")})
    ours(slurm, "n1")
    results = run(Reboot, slurm, "n1", deadline=10)
    assert outcomes(results) == {"n1": "held"}
    assert "7" in results["n1"].why
    assert ("suspended" in results["n1"].why) == (state == "SUSPENDED")
    assert not slurm.commands


def test_a_node_that_does_not_return_has_failed():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    assert outcomes(run(Reboot, slurm, "n1", deadline=30)) == {"n1": "failed"}


def test_a_node_that_returns_after_resume_timeout_is_taken_up():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    slurm.at = {10: lambda one: one.time_out("n1"), 20: lambda one: one.back("n1")}
    results = run(Reboot, slurm, "n1", deadline=60)
    assert outcomes(results) == {"n1": "rebooted"}
    assert "ResumeTimeout" in results["n1"].why
    assert "DOWN" in slurm.states["n1"]
    assert outcomes(run(Resume, slurm, "n1", deadline=60)) == {"n1": "resumed"}


@pytest.mark.parametrize(
    ("boot", "shown"),
    [
        (LONG_AGO, LONG_AGO),
        # slurmctld computes it anew from the time that a node is up.
        (LONG_AGO, "2026-01-01T00:00:01"),
        # A clock of the controller that was set back.
        ("2099-01-01T00:00:00", "2099-01-01T00:00:00"),
        # A node that has not registered since slurmctld began.
        (LONG_AGO, "None"),
        ("None", "Unknown"),
    ],
)
def test_a_reboot_that_a_person_cancels_is_no_reboot(boot: str, shown: str):
    slurm = Slurmctld.of("n1", boots={"n1": boot})
    ours(slurm, "n1")

    def cancel(one: Slurmctld) -> None:
        one.states["n1"], one.boots["n1"] = {"IDLE", "DRAIN"}, shown

    slurm.at = {5: cancel}
    results = run(Reboot, slurm, "n1", deadline=60)
    assert outcomes(results) == {"n1": "held"}
    assert "cancelled" in results["n1"].why


def test_a_second_reboot_keeps_the_reason():
    slurm = Slurmctld.of("n[1-2]")
    ours(slurm, "n[1-2]")
    for _ in range(2):
        slurm.at = {int(slurm.now) + 5: lambda one: [one.back(name) for name in ("n1", "n2")]}  # type: ignore[dict-item,return-value]
        assert set(outcomes(run(Reboot, slurm, "n[1-2]", deadline=60)).values()) == {"rebooted"}
        assert slurm.reasons == dict.fromkeys(["n1", "n2"], f"{OWN} : reboot issued")
    assert [argv[1] for argv in slurm.commands] == ["reboot", "update", "reboot"]


def test_a_reason_that_cannot_be_written_forbids_the_reboot():
    slurm = Slurmctld.of("n[1-2]", refuses={"n1"})
    ours(slurm, "n[1-2]")
    slurm.reasons["n1"] += " : reboot issued"
    results = run(Reboot, slurm, "n[1-2]")
    assert results["n1"].outcome == "failed"
    assert [argv for argv in slurm.commands if argv[1] == "reboot"] == [["scontrol", "reboot", "n2"]]


def test_slurm_cannot_reboot_a_node_whose_slurmd_does_not_answer():
    slurm = Slurmctld.of("n[1-2]")
    ours(slurm, "n[1-2]")
    slurm.states["n1"] |= {"NOT_RESPONDING"}
    assert outcomes(run(Reboot, slurm, "n1")) == {"n1": "silent"}
    assert not slurm.commands
    slurm.reasons["n1"] = "fan"
    assert outcomes(run(Reboot, slurm, "n1")) == {"n1": "held"}


def test_a_node_that_returns_from_its_reboot_with_other_hardware_has_failed():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")

    def with_less(one: Slurmctld) -> None:
        one.states["n1"] |= {"INVALID_REG"}
        one.reasons["n1"] = "gres/gpu count reported lower than configured (1 < 2)"

    slurm.at = {10: with_less}
    results = run(Reboot, slurm, "n1", deadline=60)
    assert outcomes(results) == {"n1": "failed"}
    assert "gres/gpu count" in results["n1"].why
    assert slurm.now < 30


@pytest.mark.parametrize("state", ["ALLOCATED", "MIXED", "COMPLETING"])
def test_a_node_whose_jobs_squeue_does_not_list_is_not_rebooted(state: str):
    """A job that ended between the two queries may still have its epilog on the node."""
    slurm = Slurmctld({"n1": {state}})
    ours(slurm, "n1")
    assert outcomes(report(["n1"], slurm.read().nodes)) == {"n1": "draining"}
    results = run(Reboot, slurm, "n1", deadline=10)
    assert (results["n1"].outcome, results["n1"].why) == ("held", "waits for Slurm")
    assert not slurm.commands


@pytest.mark.parametrize("state", ["DOWN", "FAIL"])
def test_a_node_without_its_drain_is_not_rebooted(state: str):
    """It would get jobs as soon as it is back."""
    slurm = Slurmctld({"n1": {"IDLE", state}}, reasons={"n1": OWN})
    results = run(Reboot, slurm, "n1", deadline=10)
    assert (results["n1"].outcome, results["n1"].why) == ("held", "waits for Slurm")
    assert not slurm.commands


@pytest.mark.parametrize(
    ("reason", "why"),
    [("", "resumed by others during its reboot"), ("fan", "fan"), (written("roll", "r2", "driver 580"), "roll r2")],
)
def test_a_node_that_a_person_takes_over_during_its_reboot_is_held(reason: str, why: str):
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    slurm.at = {5: lambda one: one.person("n1", reason, "DRAIN"), 20: lambda one: one.back("n1")}
    results = run(Reboot, slurm, "n1", deadline=60)
    assert results["n1"].outcome == "held"
    assert why in results["n1"].why
    assert slurm.now < 20


def test_a_reboot_that_slurm_begins_later_is_waited_for():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")

    def request(_argv: Any) -> str:
        slurm.states["n1"].add("REBOOT_REQUESTED")
        return ""

    slurm.change = request  # type: ignore[method-assign]
    slurm.at = {10: lambda one: one.issue("n1"), 20: lambda one: one.back("n1")}
    assert outcomes(run(Reboot, slurm, "n1", deadline=60)) == {"n1": "rebooted"}


def test_a_node_that_is_silent_again_after_its_boot_is_not_back():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")

    def boots_and_hangs(one: Slurmctld) -> None:
        one.back("n1")
        one.states["n1"].add("NOT_RESPONDING")

    slurm.at = {10: boots_and_hangs}
    assert outcomes(run(Reboot, slurm, "n1", deadline=30)) == {"n1": "failed"}
    slurm.at = {40: boots_and_hangs, 50: lambda one: one.back("n1")}
    slurm.states["n1"].discard("NOT_RESPONDING")
    assert outcomes(run(Reboot, slurm, "n1", deadline=60)) == {"n1": "rebooted"}
    assert slurm.now >= 50


def test_a_node_whose_reboot_slurm_does_not_end_is_back_after_its_boot():
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    # An answer of the node was on its way when Slurm issued the reboot.
    slurm.at = {10: lambda one: (one.back("n1"), one.states["n1"].add("REBOOT_ISSUED"))}
    assert outcomes(run(Reboot, slurm, "n1", deadline=60)) == {"n1": "rebooted"}
    assert outcomes(report(["n1"], slurm.read().nodes)) == {"n1": "drained"}
    assert outcomes(run(Resume, slurm, "n1", deadline=60)) == {"n1": "resumed"}


def with_an_old_reboot() -> Slurmctld:
    """A node that has booted, and of which Slurm still shows the reboot."""
    slurm = Slurmctld.of("n1")
    ours(slurm, "n1")
    slurm.states["n1"].add("REBOOT_ISSUED")
    slurm.boots["n1"] = "2099-01-01T00:00:01"
    return slurm


def test_a_second_reboot_that_slurm_would_ignore_is_not_requested():
    slurm = with_an_old_reboot()
    results = run(Reboot, slurm, "n1", deadline=60)
    assert outcomes(results) == {"n1": "held"}
    assert "scontrol update NodeName=n1 State=RESUME" in results["n1"].why
    assert not slurm.commands
    assert slurm.now == 0


def test_a_reason_whose_time_shows_the_boot_is_not_written_anew():
    slurm = with_an_old_reboot()
    assert outcomes(run(Note, slurm, "n1")) == {"n1": "drained"}
    assert not slurm.commands


def test_a_reason_of_an_earlier_call_with_slurms_words_is_written_anew_before_the_reboot():
    text = "failed: DOWN (x : reboot issued)"
    earlier = written("roll", "r1", text.replace("issued", "ISSUED")).replace("ISSUED", "issued")
    sum_of = sha256(f"roll:r1: {text}".encode()).hexdigest()[:4]
    slurm = Slurmctld.of("n1", reasons={"n1": f"{earlier.rpartition(' [')[0]} [{sum_of}]"})
    slurm.states["n1"].add("DRAIN")
    assert read(slurm.reasons["n1"]) is not None
    slurm.at = {10: lambda one: one.back("n1")}
    assert outcomes(run(Reboot, slurm, "n1", deadline=60)) == {"n1": "rebooted"}
    assert [argv[1] for argv in slurm.commands] == ["update", "reboot"]
    assert "reboot issued" not in slurm.commands[0][3]


@pytest.mark.parametrize(
    ("boot", "more"),
    [
        (LONG_AGO, ""),
        ("None", ""),
        ("Unknown", ""),
        ("2099-01-01T00:00:01", "NOT_RESPONDING"),
        ("2099-01-01T00:00:01", "REBOOT_REQUESTED"),
    ],
)
def test_a_reboot_that_is_issued_is_in_hand_until_the_node_has_booted(boot: str, more: str):
    slurm = Slurmctld({"n1": {"IDLE", "DRAIN", "REBOOT_ISSUED", more} - {""}}, {"n1": OWN}, boots={"n1": boot})
    assert slurm.read().nodes["n1"].reboots
    assert outcomes(run(Resume, slurm, "n1")) == {"n1": "held"}
