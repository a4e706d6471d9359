# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that today's table has no case for: a later table may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import rules, stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.stack_request import Case, Request

TABLE = stack_table.default()
NODE = Request(os="debian-13", source="nvidia", driver="580", gpus=("t4", "b300"))


def violations(case: Case, rule: rules.Rule) -> list[str]:
    return [one.rule for one in rule(case)]


def test_models_of_one_node_have_a_driver_branch_in_common() -> None:
    assert violations(Case(replace(NODE, gpus=("t4", "l4")), TABLE), rules.mixed_node) == []
    old = {**TABLE.models, "t4": replace(TABLE.models["t4"], highest=470)}
    assert violations(Case(replace(NODE, gpus=("t4", "l4")), replace(TABLE, models=old)), rules.mixed_node) == [
        "mixed-node"
    ]


@pytest.mark.parametrize(("asked", "found"), [("4.4", "4.4.0"), ("4.40", "4.40.0"), ("4", "4.40.0"), ("4.5", "")])
def test_a_version_of_dcgm_begins_with_whole_numbers(asked: str, found: str) -> None:
    table = replace(TABLE, dcgm=replace(TABLE.dcgm, versions=("4.4.0", "4.40.0")))
    assert Case(replace(NODE, dcgm=asked), table).dcgm == (found, "")


@pytest.mark.parametrize(("asked", "found"), [("2.3", "2.3.4"), ("2.30", "2.30.7"), ("2", "2.30.7"), ("2.29", "")])
def test_a_version_of_nccl_begins_with_whole_numbers(asked: str, found: str) -> None:
    table = replace(TABLE, nccl=replace(TABLE.nccl, versions={"2.3.4": {}, "2.30.7": {}}))
    assert Case(replace(NODE, nccl=asked), table).nccl == found


def test_nccl_is_refused_on_a_system_that_it_is_not_built_for() -> None:
    request = replace(NODE, gpus=("h100",), nccl="2.30.7")
    assert violations(Case(request, TABLE), rules.nccl_of_source) == []
    elsewhere = replace(TABLE, nccl=replace(TABLE.nccl, systems=("debian-12",)))
    assert violations(Case(request, elsewhere), rules.nccl_of_source) == ["nccl-source"]
