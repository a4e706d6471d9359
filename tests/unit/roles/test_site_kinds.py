"""Hosts with a site's changes are checked once for all that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles import site_kinds
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.site_kinds import changing_places, kinds

LAB = Path(__file__).parents[3] / "inventories/lab/lab.bedplate.yml"


@dataclass
class Group:
    name: str


@dataclass
class Host:
    name: str
    groups: tuple[str, ...] = ()
    vars: dict[str, Any] = field(default_factory=dict)

    def get_groups(self) -> Iterable[Group]:
        return [Group(name) for name in self.groups]


HOSTS = [
    Host("n1", ("all", "compute_nodes", "r1"), {"ansible_host": "10.0.0.1"}),
    Host("n2", ("all", "compute_nodes", "r2"), {"ansible_host": "10.0.0.2"}),
    Host("n3", ("all", "compute_nodes", "r2"), {"ansible_host": "10.0.0.3", "site_row": 1}),
    Host("n4", ("all", "slurm_login", "r2"), {"ansible_host": "10.0.0.4"}),
]


def found(places: Iterable[str], groups: Iterable[str] = ("all",)) -> list[list[str]]:
    lists = kinds(HOSTS, set(places), lambda host: host.vars, set(groups), None)
    return [[host.name for host in members] for members in lists]


def test_only_hosts_with_changes_are_checked() -> None:
    assert found([]) == []
    assert found(["group r1"]) == [["n1"]]
    assert found(["host n4"]) == [["n4"]]
    assert found(["this run"]) == found(["group all"]) == [["n1", "n2"], ["n3"], ["n4"]]


def test_a_group_with_variables_makes_another_kind() -> None:
    assert found(["group all"], ["all", "r1"]) == [["n1"], ["n2"], ["n3"], ["n4"]]


def test_many_hosts_are_alike_by_the_names_of_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_kinds, "_MOST", 2)
    own = {"n1": {"site_row": 1}, "n2": {"site_row": 2}, "n3": {"rdma_mtu": 1}, "n4": {"rdma_mtu": 2}}
    hosts = [Host(name, ("all",), variables) for name, variables in own.items()]
    lists = kinds(hosts, {"group all"}, lambda host: host.vars, set(), None)
    assert [[host.name for host in members] for members in lists] == [["n1", "n2"], ["n3"], ["n4"]]


def test_places_are_those_of_changes() -> None:
    places = {"rdma_extra_files": ["group r1"], "slurm_templates": ["host n1"], "rdma_mtu": ["group r2"]}
    assert changing_places(places) == {"group r1", "host n1"}


def test_machines_of_a_cluster_file_are_alike_by_their_profile() -> None:
    cluster = load(str(LAB))
    hosts = [Host(name, ("all",)) for name in cluster.machines]
    lists = list(kinds(hosts, {"group all"}, lambda host: host.vars, set(), cluster))
    assert sorted(len(members) for members in lists) == [1, len(cluster.nodes)]
