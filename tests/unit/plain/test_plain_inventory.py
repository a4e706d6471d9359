# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters of inventories without a cluster file, judged by the rules of the cluster file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.host_cluster import (
    host_cluster,
    plain_inventory,
    run_cluster,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.plain_inventory import (
    PlainInventoryError,
    from_data,
    plain_cluster,
    to_data,
)

HARDWARE = {"sockets": 2, "cores_per_socket": 8, "memory_mib": 64000, "gpus": {"model": "h100", "count": 1}}
STACK = {"os": "debian-13", "source": "debian", "driver": "550"}


def variables(host: str = "gpu1", own: dict[str, Any] | None = None, **every: Any) -> dict[str, Any]:
    """Return the variables of a host of an inventory with a controller and two nodes; `own` are those of gpu2 alone."""
    hostvars: dict[str, dict[str, Any]] = {
        "ctl1": {"ansible_host": "10.0.0.1", **every},
        "gpu1": {"ansible_host": "10.0.0.11", "bedplate_hardware": HARDWARE, **every},
        "gpu2": {"ansible_host": "10.0.0.12", "bedplate_hardware": HARDWARE, **every, **(own or {})},
    }
    groups = {"slurm_controllers": ["ctl1"], "compute_nodes": ["gpu1", "gpu2"]}
    return {
        "inventory_hostname": host,
        "inventory_dir": "/site",
        "bedplate_cluster": "west",
        "groups": groups,
        "hostvars": hostvars,
        **hostvars[host],
    }


def same(value: Any) -> Any:
    """Render nothing."""
    return value


def refused(role: str, given: dict[str, Any]) -> list[str]:
    with pytest.raises(PlainInventoryError) as error:
        host_cluster(role, given, same)
    return str(error.value).splitlines()


def test_groups_and_variables_make_the_cluster():
    cluster = host_cluster(
        "slurm", variables(slurm_partitions={"train": {"nodes": "gpu1"}}, slurm_version="25.05"), same
    )
    assert cluster.name == "west"
    assert [(node.name, node.address) for node in cluster.nodes] == [("gpu1", "10.0.0.11"), ("gpu2", "10.0.0.12")]
    assert cluster.services.controllers == ("ctl1",)
    assert cluster.partitions["train"].nodes == ("gpu1",)
    assert cluster.slurm.version == "25.05"
    assert len(cluster.profiles) == 1


def test_true_and_a_domain_are_kept_as_a_cluster_file_has_them():
    cluster = host_cluster(
        "slurm",
        variables(slurm_partitions={"train": {"nodes": "all", "default": True}}, bedplate_domain="west.example.org"),
        same,
    )
    assert cluster.partitions["train"].default is True
    assert cluster.domain == "west.example.org"


def test_slurm_counts_what_each_node_has():
    own = {"bedplate_hardware": {"gpus": HARDWARE["gpus"]}}
    lines = refused("slurm", variables(own=own))
    assert lines
    assert all(line.startswith("host gpu2: bedplate_hardware") for line in lines)
    assert any("sockets" in line for line in lines)


def test_the_cluster_of_a_run_is_that_of_a_controller():
    """The check of variables runs on a host that is no machine, and has none of their variables."""
    given = variables(slurm_version="25.05", bedplate_cluster="east")
    run = {"groups": given["groups"], "hostvars": given["hostvars"]}
    for one in run["hostvars"]:
        run["hostvars"][one]["inventory_hostname"] = one
    cluster = run_cluster(run, same)
    assert cluster
    assert (cluster.name, cluster.slurm.version) == ("east", "25.05")
    assert run_cluster({**run, "groups": {"compute_nodes": ["gpu1"]}}, same) is None


def test_it_is_the_same_on_every_host_and_as_data():
    given = [plain_inventory("slurm", variables(host), same) for host in ("ctl1", "gpu1", "gpu2")]
    assert given[0] == given[1] == given[2]
    assert from_data(to_data(given[0])) == given[0]


def test_all_mistakes_are_reported_with_host_and_variable():
    own = {"bedplate_hardware": {**HARDWARE, "sockets": "two", "cores": 3}, "bedplate_address": "10.0.0.400"}
    assert refused("slurm", variables(own=own)) == [
        "host gpu2: bedplate_address: '10.0.0.400' is not an IPv4 address. Set bedplate_address, such as 10.20.1.11."
    ]
    del own["bedplate_address"]
    lines = refused(
        "slurm", variables(own=own, slurm_options={"SlurmctldTimout": 3}, slurm_partitions={"a": {"nodes": "gpu9"}})
    )
    assert [line.removeprefix("host gpu2: ").partition(": ")[0] for line in lines] == [
        "bedplate_hardware.cores",
        "bedplate_hardware.sockets",
        "slurm_options.SlurmctldTimout",
        "slurm_partitions.a.nodes",
    ]


def test_an_address_of_two_hosts_is_refused():
    (line,) = refused("slurm", variables(own={"ansible_host": "10.0.0.11"}))
    assert line.startswith("host gpu2: bedplate_address: 10.0.0.11 of gpu2 is gpu1's already")


@pytest.mark.parametrize(
    ("name", "value"),
    [("slurm_version", "25.05"), ("bedplate_cluster", "east"), ("bedplate_domain", "east.example.org")],
)
def test_hosts_agree_on_what_is_of_the_whole_cluster(name: str, value: str):
    (line,) = refused("slurm", variables(own={name: value}))
    assert line == f"{name}: host ctl1 and host gpu2 have different values. Set it for the group all."


def test_a_host_in_no_group_is_refused():
    given = {**variables(), "inventory_hostname": "x1"}
    (line,) = refused("slurm", given)
    assert line.startswith("host x1: ")
    assert "slurm_controllers" in line
    assert "compute_nodes" in line


def test_a_gpu_role_reads_the_host_alone():
    given = variables(gpu_driver_stack=STACK)
    del given["hostvars"], given["groups"]
    given["ansible_host"] = "gpu1.example.org"
    stack = host_cluster("gpu_driver", given, same).node("gpu1").profile.gpu_stack
    assert stack
    assert (stack.os, stack.source, stack.driver) == ("debian-13", "debian", "550")


def test_a_stated_address_is_one_for_each_role():
    given = {**variables(gpu_driver_stack=STACK), "bedplate_address": "10.0.0.400"}
    (line,) = refused("gpu_driver", given)
    assert line.startswith("host gpu1: bedplate_address: '10.0.0.400'")


def test_rdma_needs_an_address():
    given = {**variables(), "ansible_host": "gpu1.example.org"}
    assert refused("rdma", given) == [
        "host gpu1: bedplate_address is not set, and ansible_host: 'gpu1.example.org' is not an IPv4 address. "
        "Set bedplate_address, such as 10.20.1.11."
    ]


def test_a_variable_of_one_key_outranks_the_stack():
    given = variables(gpu_driver_stack=STACK, gpu_driver_version="550.163.01")
    stack = host_cluster("gpu_driver", given, same).node("gpu1").profile.gpu_stack
    assert stack
    assert stack.driver == "550.163.01"


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("gpu_driver_version", 550, "gpu_driver_version"),
        ("gpu_driver_version", "five", "gpu_driver_version"),
        ("gpu_driver_stack", {**STACK, "colour": "green"}, "gpu_driver_stack.colour"),
        ("gpu_driver_stack", "550", "gpu_driver_stack"),
        ("gpu_driver_stack", {"driver": "550"}, "gpu_driver_stack"),
        ("gpu_driver_stack", {**STACK, "source": "nvidia"}, "gpu_driver_stack.keys"),
        ("cuda_versions", [12.9], "cuda_versions[0]"),
        ("dcgm_version", "four", "dcgm_version"),
    ],
)
def test_a_mistake_in_a_request_names_host_and_variable(name: str, value: Any, place: str):
    given = {**variables(gpu_driver_stack=STACK), name: value}
    lines = refused("gpu_driver", given)
    assert all(line.startswith("host gpu1: ") for line in lines)
    assert any(line.startswith((f"host gpu1: {place}: ", f"host gpu1: {place.split('.')[0]}: ")) for line in lines), (
        lines
    )


def test_a_template_is_rendered_before_it_is_judged():
    given = variables(gpu_driver_stack=STACK, gpu_driver_version="{{ wanted }}")
    cluster = host_cluster("gpu_driver", given, lambda value: "550.163.01" if value == "{{ wanted }}" else value)
    stack = cluster.node("gpu1").profile.gpu_stack
    assert stack
    assert stack.driver == "550.163.01"


def test_requests_without_gpus_are_refused():
    given = {**variables(gpu_driver_stack=STACK), "bedplate_hardware": {"sockets": 1}}
    (line,) = refused("gpu_driver", given)
    assert "has no GPUs" in line


class TestBesideAClusterFile:
    @pytest.fixture
    def file(self, tmp_path: Any) -> str:
        path = tmp_path / "a.bedplate.yml"
        path.write_text(
            """
plugin: bedplate.cluster.racks
site: a
cluster: a
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles: {p: {gpus: {model: h100, count: 1}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}}
racks: {r: {nodes: "gpu[1-2]", profile: p}}
hosts: {ctl1: {address: 10.0.0.1}}
services: {controllers: ctl1}
partitions: {a: {nodes: all}}
gpu_stack: {os: debian-13, source: debian, driver: "550", dcgm: ""}
""".replace(', dcgm: ""', "")
        )
        return str(path)

    def test_a_variable_replaces_one_key_on_that_host(self, file: str):
        given = {"inventory_hostname": "gpu1", "bedplate_cluster_file": file, "gpu_driver_version": "550.163.01"}
        cluster = host_cluster("gpu_driver", given, same)
        drivers = [cluster.node(name).profile.gpu_stack.driver for name in ("gpu1", "gpu2")]  # type: ignore[union-attr]
        assert drivers == ["550.163.01", "550"]

    def test_a_variable_leaves_all_other_keys_of_the_file(self, file: str, tmp_path: Any):
        text = (tmp_path / "a.bedplate.yml").read_text().partition("gpu_stack:")[0]
        keys = ("nvidia", "mirror")
        for key in keys:
            (tmp_path / f"{key}.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
        (tmp_path / "a.bedplate.yml").write_text(
            f"{text}gpu_stack:\n  os: ubuntu-24.04\n  source: nvidia\n  driver: '580'\n  module: open\n  platform: pcie\n"
            "  kernel: 6.8.0-60-generic\n  cuda: ['12.9']\n  keys: {nvidia: nvidia.asc}\n  urls: {nvidia: 'http://m/nvidia'}\n"
            "  module_options: {NVreg_RestrictProfilingToAdminUsers: '0'}\n"
            "  mirror: {url: 'http://m/gpu', key: mirror.asc}\n"
        )
        given = {"inventory_hostname": "gpu1", "bedplate_cluster_file": file}
        before = host_cluster("cuda", given, same).node("gpu1").profile.gpu_stack
        after = host_cluster("cuda", {**given, "cuda_versions": ["13.0"]}, same).node("gpu1").profile.gpu_stack
        assert before
        assert after == replace(before, cuda=("13.0",))

    def test_nothing_set_is_the_cluster_of_the_file(self, file: str):
        given = {"inventory_hostname": "gpu1", "bedplate_cluster_file": file}
        assert host_cluster("gpu_driver", given, same) is host_cluster("slurm", given, same)

    @pytest.mark.parametrize(
        "name", ["bedplate_hardware", "bedplate_domain", "slurm_version", "slurm_partitions", "slurm_options"]
    )
    def test_what_the_file_says_is_refused_as_a_variable(self, file: str, name: str):
        given = {"inventory_hostname": "gpu1", "bedplate_cluster_file": file, name: {"a": 1}}
        (line,) = refused("slurm", given)
        assert line.startswith(f"{name}: this inventory has a cluster file. Set `")


def test_a_cluster_without_slurm_has_no_services():
    given = variables(gpu_driver_stack=STACK)
    inventory = plain_inventory("cuda", given, same)
    cluster = plain_cluster(inventory)
    assert cluster.services.controllers == ()
    assert cluster.partitions == {}


def test_hardware_that_is_not_set_is_one_mistake_beside_all_others():
    given = variables(bedplate_hardware=None, slurm_version=24.11)
    unset, version = refused("slurm", given)
    assert unset.startswith("host gpu1 and 1 more: bedplate_hardware: is not set.")
    assert version.startswith("slurm_version: 24.11 is not text")


def test_a_cluster_without_nodes_names_the_group():
    given = variables("ctl1")
    given["groups"]["compute_nodes"] = []
    (text,) = refused("slurm", given)
    assert text.startswith("group compute_nodes: has no host")


def test_all_wrong_addresses_are_reported_together():
    found = refused("slurm", variables(ansible_host="name.example.org", bedplate_address=None))
    assert [line.partition(":")[0] for line in found] == ["host ctl1", "host gpu1", "host gpu2"]
