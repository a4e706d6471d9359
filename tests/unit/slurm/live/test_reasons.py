# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a reason is, as `scontrol --oneliner show nodes` prints it: a reason that was edited is never bedplate's own."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import (
    is_slurms,
    read,
    written,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurmctld_report import node_pairs

OWN = written("roll", "r1", "driver 580")
SET = "[root@2026-11-25T22:18:50]"


def reason_of(shown: str) -> str:
    """Return the reason that is read from a line with this text after the state."""
    pairs = node_pairs(f"NodeName=n1 State=IDLE+DRAIN Partitions=gpu   {shown}")
    assert (pairs["State"], pairs["ReasonUser"], pairs["ReasonTime"]) == ("IDLE+DRAIN", "root", "2026-11-25T22:18:50")
    return pairs["Reason"]


@pytest.mark.parametrize(
    "rest",
    [
        "",
        " Comment=ask Ann",
        " Extra=x=1",
        " InstanceId=i-1 InstanceType=p5",
        " InstanceType=p5",
        " ReservationName=course",
        " TLSCertTokenSet=Yes TLSCertLastRenewal=2026-11-25T22:18:50",
        " Topology=default:leaf1",
        " Parameters=x",
    ],
)
def test_what_slurm_prints_after_a_reason_is_not_part_of_it(rest: str):
    assert reason_of(f"Reason={OWN} {SET}{rest}") == OWN


@pytest.mark.parametrize(
    "shown",
    [
        f"{OWN} [ann@friday] keep {SET}",
        f"{OWN} [ann@2026-11-24T22:18:50] keep {SET}",
        f"{OWN} [ann@2026-11-24T22:18:50] {SET}",
        # The second line of a reason.
        f"{OWN} {SET}        keep",
        f"{OWN} {SET}        keep Comment=x",
        f"{OWN} {SET}        Comment=keep",
        f"{OWN} {SET}        [keep]",
        # A comment that looks like the end of a reason makes it unsure where the reason ends.
        f"{OWN} {SET} Comment=x {SET}",
    ],
)
def test_a_reason_that_somebody_edited_is_not_bedplates_own(shown: str):
    assert read(reason_of(f"Reason={shown}")) is None


def test_a_text_has_nothing_that_looks_like_the_end_of_a_reason():
    reason = written("roll", "r1", "driver [ann@2026-11-24T22:18:50] | n[1-2]\nand more")
    assert reason.startswith("bedplate:roll:r1: driver (ann@2026-11-24T22:18:50) / n(1-2) and more [")
    assert read(reason_of(f"Reason={reason} {SET}")) is not None


@pytest.mark.parametrize(
    ("kind", "run"), [("roll", ""), ("roll", "R1"), ("roll", "a b"), ("roll", "a:b"), ("roll", "r1\n"), ("fan", "r1")]
)
def test_a_run_that_could_not_be_read_back_has_no_reason(kind: str, run: str):
    with pytest.raises(ValueError, match=r"allowed: "):
        written(kind, run, "driver 580")


@pytest.mark.parametrize(
    "added", ["reboot issued", "reboot timed out", "reboot complete", "ResumeTimeout reached", "Not responding"]
)
def test_what_slurm_appends_keeps_a_reason(added: str):
    found = read(f"{OWN} : {added}")
    assert found is not None
    assert (found.is_of("roll", "r1"), found.added) == (True, (added,))


def test_the_reason_of_an_edit_before_reasons_had_sums_is_bedplates_own():
    """An update of bedplate may follow a run that was killed."""
    found = read("bedplate:edit:killed:2026-01-01T00:00:00Z the line of this node is about to change : Not responding")
    assert found is not None
    assert (found.kind, found.run, found.added) == ("edit", "killed", ("Not responding",))
    assert found.text == "2026-01-01T00:00:00Z the line of this node is about to change"
    assert read("bedplate:roll:killed:2026-01-01T00:00:00Z driver 580") is None


def test_what_slurm_appends_when_a_node_does_not_return_in_time_keeps_the_reason():
    found = read(f"{OWN} : reboot issued : ResumeTimeout reached : Not responding")
    assert found is not None
    assert found.added == ("reboot issued", "ResumeTimeout reached", "Not responding")


@pytest.mark.parametrize(
    "reason",
    [
        "Not responding",
        "Low socket*core*thread count, Low CPUs",
        "Low CPUs",
        "Low RealMemory (reported:1 < 100.00% of configured:2)",
        "Low TmpDisk",
        "CoreSpec differ",
        "gres/gpu count reported lower than configured (7 < 8)",
        "gres/gpu:h100 count too low (7 < 8)",
        "Invalid GRES core specification",
        "Could not unpack gres data",
        "Reported active features (a) are not a superset of currently active changeable features (b)",
        "RestrictedCoresPerGPU do not match slurmctld configuration",
        "Node unexpectedly rebooted",
        "NO NETWORK ADDRESS FOUND",
        "Bad core count",
        "Duplicate jobid",
        "Prolog error",
        "Prolog/Epilog failure",
        "Epilog error",
        "batch job complete failure",
        "Job env setup error",
        "Job step not running",
        "Kill task failed",
        "SlurmdSpoolDir is full",
        "switch_g_job_postfini failure",
        "Cannot collect energy data.",
        "Failed to set GPU frequency",
        "ResumeTimeout reached",
        "reboot timed out",
    ],
)
def test_slurms_own_reasons_are_known(reason: str):
    assert is_slurms(reason)


@pytest.mark.parametrize("reason", ["fan is loud", "ask Ann: Prolog error", "", OWN])
def test_a_persons_reason_is_not_slurms(reason: str):
    assert not is_slurms(reason)


@pytest.mark.parametrize(
    "words", ["reboot issued", "reboot timed out", "reboot complete", "ResumeTimeout reached", "Not responding"]
)
def test_a_text_has_no_words_that_slurm_would_take_for_its_own(words: str):
    reason = written("roll", "r1", f"failed: DOWN (x : {words})")
    assert words not in reason
    found = read(f"{reason} : reboot issued")
    assert found is not None
    assert found.added == ("reboot issued",)
