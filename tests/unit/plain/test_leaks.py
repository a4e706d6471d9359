# SPDX-License-Identifier: GPL-3.0-or-later
"""A request of one host stays on it, and what variables leave out is refused, not replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.host_cluster import host_cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.plain_inventory import (
    PlainHost,
    PlainInventory,
    PlainInventoryError,
    plain_cluster,
    to_data,
)

LAB = str(Path(__file__).parents[3] / "inventories/lab/lab.bedplate.yml")
HARDWARE = {"sockets": 1, "cores_per_socket": 8, "memory_mib": 64000, "gpus": {"model": "h100", "count": 1}}
STACK = {"module_options": {"NVreg_RestrictProfilingToAdminUsers": "0"}}


def inventory(hardware: Mapping[str, Any] | None = HARDWARE, **more: Any) -> PlainInventory:
    hosts = {"ctl1": PlainHost("10.0.0.1"), "gpu1": PlainHost("10.0.0.11", hardware)}
    return PlainInventory("/site", "west", hosts, ["gpu1"], {"controllers": ["ctl1"]}, **more)


def of(host: str, **variables: Any) -> Any:
    return host_cluster("node_os", {"inventory_hostname": host, **variables}, lambda value: value)


def test_a_request_of_one_host_is_no_request_of_a_later_one() -> None:
    before = load(LAB).node("gpu01").profile
    given = of("gpu01", bedplate_cluster_file=LAB, gpu_driver_stack=STACK)
    assert given.node("gpu01").profile.gpu_stack.module_options == tuple(STACK["module_options"].items())
    assert load(LAB).node("gpu01").profile == before


def test_a_request_for_all_hosts_means_nothing_on_a_controller() -> None:
    found = of("ctl1", bedplate_cluster_file=LAB, gpu_driver_stack=STACK)
    assert found is load(LAB)


def test_hardware_that_is_not_set_is_refused_where_nothing_else_is_wrong() -> None:
    with pytest.raises(PlainInventoryError, match=r"host gpu1: bedplate_hardware: is not set"):
        plain_cluster(inventory(None))
    assert plain_cluster(inventory()).node("gpu1")


def test_no_partition_is_not_the_default_partition() -> None:
    assert list(plain_cluster(inventory()).partitions) == ["all"]
    with pytest.raises(PlainInventoryError, match=r"^slurm_partitions: "):
        plain_cluster(inventory(partitions={}))


@pytest.mark.parametrize(
    "data", [to_data(inventory(None)), {**to_data(inventory()), "other": 1}], ids=["mistake", "other key"]
)
def test_data_of_an_inventory_that_cannot_be_is_an_error_of_the_filter(data: dict[str, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match=r"^node: "):
        cluster_of(data, "node")
