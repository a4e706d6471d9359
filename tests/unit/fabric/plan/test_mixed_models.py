"""Switches of a planned shape that have another number of ports than the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan import buildable
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import PlanError, planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.fabric_files import written
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.two_fabrics import TWO, cluster

SWITCHES = 'switches: {"su1-r0": {ports: 20}, "spine[1-2]": {ports: 64, cage_ports: 2}}'


def plan_with(tmp_path: Path, switches: str = SWITCHES, *edits: tuple[str, str]):
    found = cluster(tmp_path, TWO, ("uplinks: 4,", f"uplinks: 4, {switches},"), *edits)
    return found.view()


def test_cables_go_to_the_ports_that_a_switch_has(tmp_path: Path):
    view = plan_with(tmp_path)
    assert buildable.fabric_mistakes(view) == []
    plan = planned(view).plan
    assert {name: (one.ports, one.lanes) for name, one in plan.switches.items()} == {
        "su1-r0": (20, 1), "su1-r1": (40, 1), "su2-r0": (40, 1), "su2-r1": (40, 1), "spine1": (64, 2), "spine2": (64, 2),
    }  # fmt: skip
    ups = {leaf: [link.a_port for link in plan.links if link.a == leaf] for leaf in ("su1-r0", "su1-r1")}
    assert ups == {"su1-r0": [17, 18, 19, 20], "su1-r1": [37, 38, 39, 40]}
    rows = written(planned(view))[0]["cabling.csv"]
    assert ",spine1,1,1/1," in rows or "spine1,1" in rows


def test_a_small_leaf_alone_is_too_full(tmp_path: Path):
    switches = 'switches: {"su1-r0": {ports: 5}}'
    with pytest.raises(PlanError) as error:
        planned(plan_with(tmp_path, switches))
    check_messages("mixed models: a small leaf", error.value, tmp_path)
    assert "su1-r0 has 5 ports" in str(error.value)
    assert "su1-r1" not in str(error.value)


def test_a_leaf_of_servers_has_its_own_number_of_ports(tmp_path: Path):
    switches = 'leaves: sm-leaf, switches: {"sm-leaf": {ports: 20}, "su1-r0": {ports: 60}}'
    on = (
        "sm1: {address: 10.0.0.200, nics: [{name: mlx5_0}",
        "sm1: {address: 10.0.0.200, nics: [{name: mlx5_0, leaf: sm-leaf}",
    )
    plan = planned(plan_with(tmp_path, switches, on)).plan
    assert (plan.switches["sm-leaf"].ports, plan.switches["su1-r0"].ports) == (20, 60)
    assert all(link.a_port <= 20 for link in plan.links if link.a == "sm-leaf")


def test_switches_that_the_plan_lacks_are_named_with_their_key(tmp_path: Path):
    lines = buildable.fabric_mistakes(plan_with(tmp_path, 'switches: {"spine[2-4]": {ports: 8}, "su1-r9": {ports: 8}}'))
    check_messages("mixed models: unknown switches", lines, tmp_path)
    assert len(lines) == 2
