# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role's decision for a host takes from the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Decision
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import PartError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import HostDecision, RunHost

ROOT = Path(__file__).parents[3]
LAB = {"inventory_hostname": "gpu01", "bedplate_cluster_file": str(ROOT / "inventories/lab/lab.bedplate.yml")}


def host(login_user: str = "", **variables: Any) -> RunHost:
    def template(value: Any) -> Any:
        return variables["site_user"] if value == "{{ site_user }}" else value

    def render(name: str, path: str, _variables: Any) -> str:
        return f"{name} for {path}\n"

    return RunHost({**LAB, **variables}, template, render, login_user)


@pytest.mark.parametrize(
    ("login_user", "variables", "user"),
    [
        ("operator", {}, "operator"),
        ("operator", {"ansible_user": "deploy"}, "deploy"),
        ("operator", {"ansible_user": "{{ site_user }}", "site_user": "robot"}, "robot"),
    ],
)
def test_who_runs_ansible_can_log_in_to_a_node_without_a_job(
    login_user: str, variables: dict[str, Any], user: str
) -> None:
    found = host(login_user, **variables).decision("slurm").arguments("compute")
    assert found
    (rule,) = [entry["content"] for entry in found["files"] if entry["path"] == "/etc/pam.d/sshd"]
    assert user in rule.split()


def test_changes_of_the_site_reach_the_part_and_mistakes_in_them_are_refused() -> None:
    templates = {"nccl.conf.j2": "/site/nccl.j2"}
    extra = [{"path": "/etc/motd.d/rdma", "content": "x\n"}]
    unit = "bedplate-rdma.service"
    own = {"rdma_templates": templates, "rdma_extra_files": extra, "rdma_drop_ins": {unit: {"a.conf": "[Service]\n"}}}
    found = host(**own, rdma_nccl={"NCCL_DEBUG": "INFO"}).decision("rdma").arguments("rdma")
    assert found
    contents = {entry["path"]: entry.get("content") for entry in found["files"]}
    assert contents["/etc/nccl.conf"] == "/site/nccl.j2 for /etc/nccl.conf\n"
    assert contents["/etc/motd.d/rdma"] == "x\n"
    (drop_ins,) = [one["drop_ins"] for one in found["units"] if one["name"] == unit]
    assert drop_ins["a.conf"] == "[Service]\n"
    with pytest.raises(PartError, match=r"rdma_templates: 'ncl\.conf\.j2'"):
        host(rdma_templates={"ncl.conf.j2": "/x"}).decision("rdma")


def test_a_part_that_goes_is_deployed_and_not_expected() -> None:
    made = HostDecision("dcgm", {}, Decision({"dcgm_absent": {"manager": "apt"}}), lambda name, _path, _variables: name)
    found = made.arguments("dcgm")
    assert found
    assert (found["manifest"], found["state"]) == ("dcgm", "absent")
    assert made.deployments() == []
    assert HostDecision("dcgm", {}, Decision(), lambda name, _path, _variables: name).arguments("dcgm") is None


@pytest.mark.parametrize(
    ("variables", "by_table"),
    [
        ({}, False),
        ({"gpu_resolve": "missing"}, False),
        ({"gpu_resolve": None}, False),
        ({"gpu_resolve": "off"}, True),
        ({"gpu_resolve": False}, True),
    ],
)
def test_versions_of_the_table_are_accepted_only_by_a_variable(variables: dict[str, Any], by_table: bool) -> None:
    assert host(**variables).request("gpu_driver").gpu_by_table is by_table
