# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that Slurm itself has out of service: a run that says so drains them, and leaves what a person, a run or power saving has."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.drain_nodes import Drain
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import report
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.resume_nodes import Resume
from tests.unit.slurm.nodes.slurmctld import OWN, Slurmctld, run

OTHER = written("roll", "r9", "driver 580")
SLURMS = {
    "does not answer": ({"DOWN", "NOT_RESPONDING"}, "Not responding"),
    "does not answer yet": ({"IDLE", "NOT_RESPONDING"}, ""),
    "down without a reason": ({"DOWN"}, ""),
    "rebooted": ({"DOWN"}, "Node unexpectedly rebooted"),
    "drained by Slurm": ({"IDLE", "DRAIN"}, "Kill task failed"),
    "after a drain that is over": ({"DOWN", "NOT_RESPONDING"}, "fan is loud : Not responding"),
    "after a run that is over": ({"DOWN", "NOT_RESPONDING"}, f"{OTHER} : Not responding"),
    "rebooted after a run that is over": ({"DOWN"}, f"{OTHER} : Node unexpectedly rebooted"),
    "after ResumeTimeout": ({"DOWN", "NOT_RESPONDING"}, "reboot timed out"),
}
OTHERS = {
    "drained by a person": ({"IDLE", "DRAIN"}, "fan is loud"),
    "drained by a person, and away": ({"DOWN", "DRAIN", "NOT_RESPONDING"}, "fan is loud : Not responding"),
    "down by a person": ({"DOWN"}, "dead"),
    "drained without a reason": ({"IDLE", "DRAIN"}, ""),
    "drained by a run": ({"IDLE", "DRAIN"}, OTHER),
    "drained by a run, and away": ({"DOWN", "DRAIN", "NOT_RESPONDING"}, f"{OTHER} : Not responding"),
    # Slurm 22.05 takes the drain off it.
    "late from the reboot of a run": ({"DOWN"}, f"{OTHER} : reboot issued : reboot timed out"),
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


def test_a_node_that_was_down_is_waited_for_when_it_is_resumed_also_if_slurm_keeps_its_reason():
    class Keeps(Slurmctld):
        """It keeps the reason, and hears of the node two seconds later."""

        def _update(self, name: str, pairs: dict[str, str]) -> None:
            reason = self.reasons[name]
            super()._update(name, pairs)
            self.reasons[name] = reason
            self.states[name].add("NOT_RESPONDING")
            self.at[int(self.now) + 2] = lambda slurm: slurm.states[name].discard("NOT_RESPONDING")

    slurm = Keeps.of("n1")
    slurm.states["n1"], slurm.reasons["n1"] = {"DOWN", "DRAIN"}, OWN
    assert run(Resume, slurm, "n1", deadline=0)["n1"].outcome == "failed"
    slurm.states["n1"] = {"DOWN", "DRAIN"}
    assert run(Resume, slurm, "n1", deadline=30)["n1"].outcome == "resumed"


def test_a_node_in_service_is_not_out():
    assert not report(["n2"], Slurmctld.of("n[1-2]").read().nodes)["n2"].by_slurm
