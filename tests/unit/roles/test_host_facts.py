# SPDX-License-Identifier: GPL-3.0-or-later
"""What a decision takes from the run beside variables: groups of the host, check mode, the tags of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles import misspelt_names, phases, plain_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import RunHost

CLUSTER = Path(__file__).parents[3] / "inventories/lab/lab.bedplate.yml"
LOGIN_RULE = "/etc/pam.d/sshd"


def compute(check: bool = False, **variables: Any) -> list[dict[str, Any]]:
    """Return the files of slurmd's part on a node."""
    own = {"inventory_hostname": "gpu01", "bedplate_cluster_file": str(CLUSTER), **variables}
    host = RunHost(own, lambda value: value, lambda _name, _path, _values: "", "operator", check)
    found = host.decision("slurm").arguments("compute")
    assert found
    return list(found["files"])


@pytest.mark.parametrize(
    ("groups", "restricted"), [(["compute_nodes"], True), (["compute_nodes", "slurm_login"], False), (None, True)]
)
def test_a_node_that_is_also_a_login_host_lets_everybody_in(groups: list[str] | None, restricted: bool) -> None:
    assert (LOGIN_RULE in [entry["path"] for entry in compute(group_names=groups)]) is restricted


@pytest.mark.parametrize("check", [True, False])
def test_the_login_rule_is_proved_unless_its_package_may_be_missing(check: bool) -> None:
    (rule,) = [entry for entry in compute(check) if entry["path"] == LOGIN_RULE]
    assert ("validate" in rule) is not check


@pytest.mark.parametrize("every", ["all", "tagged"])
def test_a_tag_of_every_task_deploys_everything(every: str) -> None:
    assert phases.chosen_phases("rdma", [every, "rdma_files"], ["rdma_files"]) == phases.ALL


@pytest.mark.parametrize(
    "group", ["slurm_controllers", "slurm_database", "slurm_login", "slurm_rest", "subnet_managers", "compute_nodes"]
)
def test_each_group_of_a_role_makes_an_inventory_a_cluster(group: str) -> None:
    assert plain_mistakes.is_plain([group, "all"])
    assert not plain_mistakes.is_plain(["all", "ungrouped"])


@pytest.mark.parametrize(("name", "warned"), [("gpus.yml", True), ("all~", False), ("gpus.yml~", False), (".x", False)])
def test_copies_of_an_editor_are_no_lost_variables(tmp_path: Path, name: str, warned: bool) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / name).write_text("a: 1\n")
    assert bool(list(misspelt_names.unread_files([tmp_path], ["all"], ["gpu01"]))) is warned
