# SPDX-License-Identifier: GPL-3.0-or-later
"""Which states take a node out of service, and with which a reason counts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes import node_states
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.drain_nodes import Drain
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import Order, report
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.note_reasons import Note
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.out_limits import Limit
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.reboot_nodes import Reboot
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.resume_nodes import Resume
from tests.unit.slurm.nodes.slurmctld import OWN, Slurmctld, outcomes, run


@pytest.mark.parametrize(
    "state",
    [
        "IDLE+DRAIN",
        "DOWN",
        "IDLE+FAIL",
        "IDLE+REBOOT_ISSUED",
        "IDLE+POWER_DOWN",
        "IDLE+POWERED_DOWN",
        "IDLE+POWERING_DOWN",
        "IDLE+POWERING_UP",
        "FUTURE",
        "UNKNOWN",
        "IDLE+NOT_RESPONDING",
    ],
)
def test_a_node_that_takes_no_job_is_left_alone_and_counts_for_limits(state: str):
    slurm = Slurmctld({"n1": {*state.split("+")}, "n2": {"IDLE"}})
    limit = Limit("partition gpu", frozenset(slurm.states), 1)
    results = run(Drain, slurm, "n[1-2]", limits=(limit,))
    assert outcomes(results) == {"n1": "held", "n2": "limited"}
    assert "1 of at most 1 nodes are out: n1" in results["n2"].why
    for verb in (Reboot, Resume, Note):
        assert outcomes(run(verb, slurm, "n1")) == {"n1": "held"}
    assert outcomes(report(["n1"], slurm.read().nodes)) == {"n1": "held"}
    assert not slurm.commands


@pytest.mark.parametrize("state", ["IDLE", "ALLOCATED", "MIXED", "IDLE+PLANNED", "IDLE+RESERVED", "IDLE+MAINTENANCE"])
def test_a_node_in_service_counts_for_no_limit(state: str):
    slurm = Slurmctld({"n1": {*state.split("+")}, "n2": {"IDLE"}})
    assert outcomes(report(["n1"], slurm.read().nodes)) == {"n1": "resumed"}
    limit = Limit("partition gpu", frozenset(slurm.states), 1)
    assert outcomes(run(Drain, slurm, "n2", limits=(limit,))) == {"n2": "drained"}


@pytest.mark.parametrize(
    ("state", "run_of_it"),
    [("IDLE+DRAIN", "r1"), ("DOWN", "r1"), ("IDLE+FAIL", "r1"), ("IDLE", ""), ("IDLE+POWERED_DOWN", "")],
)
def test_a_reason_counts_only_on_a_node_that_it_keeps_out_of_service(state: str, run_of_it: str):
    slurm = Slurmctld({"n1": {*state.split("+")}}, reasons={"n1": OWN})
    assert report(["n1"], slurm.read().nodes)["n1"].run == run_of_it


@pytest.mark.parametrize("answer", ["", "\n", "No nodes in the system\n"])
def test_an_answer_without_any_node_is_no_answer(answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    conf = tmp_path / "slurm.conf"
    conf.touch()
    monkeypatch.setattr(node_states, "run", lambda *_, **__: SimpleNamespace(code=0, stdout=answer, error_line=""))
    with pytest.raises(node_states.SlurmSilentError, match="no node in its answer"):
        node_states.snapshot(conf)


@pytest.mark.parametrize(("has_conf", "waits"), [(True, 60), (False, 0)])
def test_only_a_slurm_with_a_configuration_has_time_to_answer(
    has_conf: bool, waits: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    conf, now = tmp_path / "slurm.conf", [0.0]
    if has_conf:
        conf.touch()
    monkeypatch.setattr(node_states, "run", lambda *_, **__: SimpleNamespace(code=1, stdout="", error_line="no answer"))
    order = Order(("n1",), "provision", "orders")
    verb = Resume(
        order,
        lambda: node_states.snapshot(conf),
        lambda _argv: "",
        sleep=lambda seconds: now.append(now.pop() + seconds),
        clock=lambda: now[0],
    )
    with pytest.raises(node_states.SlurmSilentError, match="no answer" if has_conf else "slurm.conf not found"):
        verb.run()
    assert waits <= now[0] < waits + 10
