# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests of hosts for software, judged once for hosts that have the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.plain_mistakes import missing_groups, mistakes
from tests.unit.roles.test_role_mistakes import Host

HARDWARE = {"gpus": {"model": "h100", "count": 1}}
STACK = {"os": "debian-13", "source": "debian", "driver": "550"}
HOSTS = [Host("n1", ("r1",)), Host("n2", ("r1",)), Host("n3", ("r2",))]
FILE = """\
plugin: bedplate.cluster.racks
site: a
cluster: a
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles:
  gpu: {gpus: {model: h100, count: 1}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
  cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks: {r: {nodes: "n1", profile: gpu}, s: {nodes: "n[2-3]", profile: cpu}}
hosts: {ctl1: {address: 10.0.0.1}}
services: {controllers: ctl1}
partitions: {a: {nodes: all}}
"""


def found(
    own: Mapping[str, Mapping[str, Any]], places: Mapping[str, list[str]], cluster: Any = None, **more: Any
) -> dict[str, list[str]]:
    def variables(host: Any) -> tuple[Mapping[str, Any], Callable[[Any], Any]]:
        plain = {"bedplate_hardware": HARDWARE} if cluster is None else {"bedplate_cluster_file": cluster.path}
        return {"inventory_hostname": host.name, **plain, **own.get(host.name, {})}, lambda value: value

    return mistakes(HOSTS, places, cluster, variables, **more)


def test_a_mistake_names_all_hosts_that_have_it() -> None:
    wrong = {"gpu_driver_stack": {**STACK, "driver": "five"}}
    told = found({"n1": wrong, "n2": wrong}, {"gpu_driver_stack": ["group r1"]})
    (text, hosts), *others = told.items()
    assert others == []
    assert text.startswith("gpu_driver_stack.driver: ")
    assert hosts == ["host n1", "host n2"]


def test_hosts_with_hardware_of_their_own_are_judged_by_themselves() -> None:
    wanted = {"gpu_driver_stack": STACK}
    own = {"n1": wanted, "n2": {**wanted, "bedplate_hardware": {"sockets": 1}}, "n3": {}}
    told = found(own, {"gpu_driver_stack": ["group r1"], "bedplate_hardware": ["group all", "host n2"]})
    assert list(told.values()) == [["host n2"]]
    assert "has no GPUs" in next(iter(told))


def test_hosts_of_each_profile_are_judged_by_themselves(tmp_path: Any) -> None:
    """Both nodes have the variable of their group, and one has no GPUs."""
    path = tmp_path / "a.bedplate.yml"
    path.write_text(FILE)
    wanted = {"gpu_driver_stack": STACK}
    told = found({"n1": wanted, "n2": wanted}, {"gpu_driver_stack": ["group r1"]}, load(str(path)))
    assert list(told.values()) == [["host n2"]]
    assert "has no GPUs" in next(iter(told))


def test_hardware_alone_is_judged_where_nothing_else_judges_it() -> None:
    own = {"n3": {"bedplate_hardware": {"sokets": 1}}}
    places = {"bedplate_hardware": ["host n3"]}
    assert found(own, places) == {}
    told = found(own, places, plain=True)
    assert list(told.values()) == [["host n3"]]
    assert next(iter(told)).startswith("bedplate_hardware.sokets: ")


def test_groups_that_a_run_names_and_the_inventory_lacks_are_one_mistake() -> None:
    groups = ["all", "slurm_controllers", "compute_nodes"]
    (text,) = missing_groups(groups, ["slurm", "rdma"])
    assert text.endswith("slurm_database: {}, slurm_login: {}, slurm_rest: {}, slurm_script_hosts: {}, rdma_nodes: {}")
    assert missing_groups([*groups, "rdma_nodes"], ["rdma", "node_tuning"]) == []
    assert missing_groups(groups, []) == []
