"""Mistakes across the variables of a role: found once for all hosts that have the same ones, and on no other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import ROLES as ROLES_FOLDER
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import RUNS_ON, mistakes
from tests.unit.rdma.machine import CHOICES as RDMA
from tests.unit.stand_ins import cluster_file
from tests.unit.tuning.node import CHOICES as TUNING


@dataclass
class Group:
    name: str


@dataclass
class Host:
    name: str
    groups: tuple[str, ...] = ()
    own: dict[str, Any] = field(default_factory=dict)

    def get_groups(self) -> Iterable[Group]:
        return [Group(name) for name in self.groups]


HOSTS = [Host("n1", ("all", "r1")), Host("n2", ("all", "r1")), Host("n3", ("all", "r2")), Host("n4", ("all", "r2"))]
PLACES = {"rdma_cnp_dscp": ["group r2", "host n4"]}


def found(
    values: dict[str, dict[str, Any]], templated: Iterable[str] = (), places: Any = None, cluster: Cluster | None = None
) -> dict[str, list[str]]:
    def choices(host: Host, role: str) -> dict[str, Any]:
        return {**(RDMA if role == "rdma" else TUNING), **values.get(host.name, {})}

    return mistakes(HOSTS, PLACES if places is None else places, set(templated), choices, lambda *_: "", cluster)


def test_hosts_that_are_alike_are_judged_once_and_named_all() -> None:
    clash = {"cnp_dscp": 26}
    told = found({"n1": {}, "n2": {}, "n3": clash, "n4": {}})
    assert list(told.values()) == [["host n3"]]
    told = found({"n1": clash, "n3": {}, "n4": {}})
    assert list(told.values()) == [["host n1", "host n2"]]


def test_isolated_cpus_are_compared_with_the_profile_of_each_node(tmp_path: Path) -> None:
    """Nodes of two profiles with one group's variable: the CPUs of one profile are all in the list."""
    file = tmp_path / "c.bedplate.yml"
    file.write_text(cluster_file({"small": {}, "big": {"cores_per_socket": 4}}, {"small": "n[1-2]", "big": "n3"}))
    wrong = {host.name: {"isolated_cpus": "0-1"} for host in HOSTS}
    places = {"node_tuning_isolated_cpus": ["group all"]}
    ((text, hosts),) = found(wrong, places=places, cluster=load(file)).items()
    assert text.startswith(
        "node_tuning_isolated_cpus: '0-1' leaves the scheduler no CPU, because profiles.small has CPUs 0-1"
    )
    assert hosts == ["host n1", "host n2"]
    # Without a cluster file no profile is known.
    assert found(wrong, places=places) == {}


def test_what_nobody_sets_is_not_asked_for() -> None:
    assert found({"n1": {"cnp_dscp": 26}}, places={}) == {}


def test_of_hosts_that_share_a_template_one_is_checked_and_named() -> None:
    """Of two hosts with the same line in a group one may have a mistake and the other not."""
    wrong = {host.name: {"cnp_dscp": 26} for host in HOSTS}
    places = {"rdma_cnp_dscp": ["group all"]}
    assert list(found(wrong, templated=["rdma_cnp_dscp"], places=places).values()) == [["host n1"]]
    assert list(found(wrong, templated=["node_tuning_thp"], places=places).values()) == [
        ["host n1", "host n2", "host n3", "host n4"]
    ]


def test_of_hosts_that_share_a_template_one_that_runs_the_role_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNS_ON, "rdma", ("r2",))
    places = {"rdma_cnp_dscp": ["group all"]}
    assert found({"n1": {"cnp_dscp": 26}, "n3": {}}, templated=["rdma_cnp_dscp"], places=places) == {}
    assert found({"n3": {"cnp_dscp": 26}}, templated=["rdma_cnp_dscp"], places=places) != {}


# A roll runs roles on compute nodes, and which of them by conditions.
_OF_NO_ROLE = ("reboot", "verify", "roll_pending", "roll_open", "roll_batches", "roll_close")


def test_the_groups_of_a_role_are_those_of_the_playbooks() -> None:
    groups: dict[str, set[str]] = {}
    for path in (ROLES_FOLDER.parent / "playbooks/phases").glob("*.yml"):
        for play in yaml.safe_load(path.read_text()) if path.stem not in _OF_NO_ROLE else ():
            for role in re.findall(r"'__role': '(\w+)'", str(play)):
                groups.setdefault(role, set()).add(str(play["hosts"]))
    for role, known in RUNS_ON.items():
        # A play of all phases has the group as a default.
        named = {re.sub(r"^\{\{ \w+ \| default\('(\w+)'\) \}\}$", r"\1", group) for group in groups[role]}
        plain = {group for group in named if re.fullmatch(r"\w+", group)}
        assert plain
        assert plain <= set(known)


def test_a_host_that_is_not_managed_and_a_key_on_another_machine_are_no_mistakes() -> None:
    assert found({"n1": {"cnp_dscp": 26, "manage": False}}) == {}
    doca = {
        "stack": "doca",
        "os": "rocky-9",
        "doca_url": "https://x/",
        "doca_key": "/none/key.asc",
        "doca_version": "1-1",
    }
    assert found({"n1": doca}) == {}


def test_keys_that_are_no_text_are_mistakes_too() -> None:
    places = {"rdma_nccl": ["group all"], "node_tuning_sysctl": ["group all"]}
    wrong = {"nccl": {1: 2}, "sysctl": {1: 2}}
    told = found({host.name: wrong for host in HOSTS}, places=places)
    assert sorted(line.partition(":")[0] for line in told) == ["node_tuning_sysctl", "rdma_nccl"]
