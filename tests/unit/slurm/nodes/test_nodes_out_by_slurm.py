# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that Slurm itself has out of service: a run that says so drains them, and leaves what a person, a run or power saving has."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.drain_nodes import Drain
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import report
from tests.unit.slurm.nodes.slurmctld import Slurmctld, run

OTHER = written("roll", "r9", "driver 580")
SLURMS = {
    "does not answer": ({"DOWN", "NOT_RESPONDING"}, "Not responding"),
    "does not answer yet": ({"IDLE", "NOT_RESPONDING"}, ""),
    "down without a reason": ({"DOWN"}, ""),
    "rebooted": ({"DOWN"}, "Node unexpectedly rebooted"),
    "drained by Slurm": ({"IDLE", "DRAIN"}, "Kill task failed"),
    "after ResumeTimeout": ({"DOWN", "NOT_RESPONDING"}, "reboot timed out"),
}
OTHERS = {
    "drained by a person": ({"IDLE", "DRAIN"}, "fan is loud"),
    "drained by a person, and away": ({"DOWN", "DRAIN", "NOT_RESPONDING"}, "fan is loud : Not responding"),
    "down by a person": ({"DOWN"}, "dead"),
    "drained without a reason": ({"IDLE", "DRAIN"}, ""),
    "drained by a run": ({"IDLE", "DRAIN"}, OTHER),
    "switched off": ({"IDLE", "POWERED_DOWN"}, ""),
    "under reboot": ({"DOWN", "REBOOT_ISSUED"}, "reboot issued"),
    "planned for later": ({"FUTURE"}, ""),
}


def slurm_with(states: set[str], reason: str) -> Slurmctld:
    slurm = Slurmctld.of("n[1-2]")
    slurm.states["n1"] = set(states)
    if reason:
        slurm.reasons["n1"] = reason
    return slurm


@pytest.mark.parametrize(("states", "reason"), SLURMS.values(), ids=SLURMS)
def test_a_node_that_slurm_has_out_is_drained_by_a_run_that_says_so(states: set[str], reason: str):
    slurm = slurm_with(states, reason)
    assert report(["n1"], slurm.read().nodes)["n1"].by_slurm
    assert run(Drain, slurm, "n1")["n1"].outcome == "held"
    assert not slurm.commands

    found = run(Drain, slurm, "n1", of_slurm=True)["n1"]
    assert (found.outcome, found.changed, found.kind, found.run) == ("drained", True, "roll", "r1")


@pytest.mark.parametrize(("states", "reason"), OTHERS.values(), ids=OTHERS)
def test_a_node_that_others_have_out_stays_as_it_is(states: set[str], reason: str):
    slurm = slurm_with(states, reason)
    assert not report(["n1"], slurm.read().nodes)["n1"].by_slurm
    assert run(Drain, slurm, "n1", of_slurm=True)["n1"].outcome == "held"
    assert not slurm.commands


def test_a_node_in_service_is_not_out():
    assert not report(["n2"], Slurmctld.of("n[1-2]").read().nodes)["n2"].by_slurm
