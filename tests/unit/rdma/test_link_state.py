"""The link of a rail: an interface that is up may have none, and one that has a link may have less than planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import link_state, rdma_devices
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.rdma_devices import NicSettings

from .machine import FILE, Machine, deployed, found

RAIL = NicSettings("mlx5_0", pci="0000:3b:00.0", rail=True, mtu=9000)
RIGHT = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "Ethernet"}
EXPECTED: dict[str, Any] = {"ethernet": True, "rate": 400.0}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine whose rail has its link."""
    one = found(tmp_path)
    for name, text in RIGHT.items():
        port(one, name, text)
    interface = rail(one).interface
    one.put(f"sys/class/net/{interface}/carrier", "1\n")
    one.put(f"sys/class/net/{interface}/operstate", "up\n")
    return one


def rail(machine: Machine) -> rdma_devices.RdmaDevice:
    device = rdma_devices.find(rdma_devices.read_devices(machine.root), RAIL)
    assert device is not None
    return device


def port(machine: Machine, name: str, text: str) -> None:
    machine.put(f"sys/class/infiniband/{rail(machine).name}/ports/1/{name}", f"{text}\n")


def read(machine: Machine, nic: NicSettings = RAIL, expected: dict[str, Any] = EXPECTED) -> list[tuple[str, str, str]]:
    there = rdma_devices.read_devices(machine.root)
    rows = link_state.findings(machine.root, there, [nic], expected, machine.run)
    return [(one.kind, one.expected, one.found) for one in rows]


def test_a_link_as_planned_is_silent(machine: Machine) -> None:
    assert read(machine) == []
    assert machine.root.problems == []


def test_up_without_a_carrier_is_dead(machine: Machine) -> None:
    machine.put(f"sys/class/net/{rail(machine).interface}/carrier", "0\n")
    machine.put(f"sys/class/net/{rail(machine).interface}/operstate", "down\n")
    port(machine, "state", "1: DOWN")
    port(machine, "phys_state", "3: Disabled")
    assert read(machine) == [
        ("link-state", "ACTIVE", "DOWN"), ("link-physical", "LinkUp", "Disabled"), ("link-carrier", "a link", "no carrier (down)"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("state", "2: INIT", ("link-state", "ACTIVE", "INIT")),
        ("phys_state", "2: Polling", ("link-physical", "LinkUp", "Polling")),
        ("rate", "100 Gb/sec (1X NDR)", ("link-rate", "400 Gbit/s", "100 Gbit/s")),
    ],
)
def test_what_a_port_lacks_is_named_alone(machine: Machine, name: str, text: str, row: tuple[str, str, str]) -> None:
    port(machine, name, text)
    assert read(machine) == [row]


def test_rdma_may_use_a_smaller_mtu_than_the_interface(machine: Machine) -> None:
    machine.active_mtu = 1024
    assert read(machine) == [("link-mtu", "4096", "1024")]
    assert read(machine, NicSettings("mlx5_0", pci=RAIL.pci, rail=True, mtu=1500)) == []


def test_a_nic_of_no_rail_is_left_alone(machine: Machine) -> None:
    port(machine, "state", "1: DOWN")
    assert read(machine, NicSettings("mlx5_0", pci=RAIL.pci)) == []


@pytest.mark.parametrize(("fabric", "rate"), [("infiniband, speed: HDR", 200), ("infiniband", 400), ("ethernet", None)])
def test_the_rate_is_that_of_the_planned_links(tmp_path: Path, fabric: str, rate: float | None) -> None:
    rendered = deployed(tmp_path, FILE.replace("technology: ethernet", f"technology: {fabric}"))
    assert rendered["expected"]["links"] == {"ethernet": fabric == "ethernet", "rate": rate}


def test_a_nic_with_a_splitter_cable_has_a_rate_of_its_own(machine: Machine, tmp_path: Path) -> None:
    text = FILE.replace("technology: ethernet", "technology: infiniband, speed: NDR")
    assert text.count("{name: mlx5_0, rail: 0") == 1
    rendered = deployed(tmp_path, text.replace("{name: mlx5_0, rail: 0", "{name: mlx5_0, rail: 0, speed: NDR200"))
    links = rendered["expected"]["links"]
    assert (links["rate"], links["rates"]) == (400, {"mlx5_0": 200})
    port(machine, "rate", "200 Gb/sec (2X NDR)")
    assert read(machine, RAIL, links) == []
    port(machine, "rate", "100 Gb/sec (1X NDR)")
    assert read(machine, RAIL, links) == [("link-rate", "200 Gbit/s", "100 Gbit/s")]


def test_the_rate_of_a_link_is_that_of_its_leaf(tmp_path: Path) -> None:
    switches = 'technology: infiniband, kind: rail-optimised, switches: {"leaf-r1-r1": {speed: HDR}}'
    rendered = deployed(tmp_path, FILE.replace("technology: ethernet", switches))
    assert rendered["expected"]["links"] == {"ethernet": False, "rate": 400, "rates": {"mlx5_1": 200}}


def test_the_rate_of_a_link_is_that_of_its_row(tmp_path: Path) -> None:
    (tmp_path / "cables.csv").write_text("a,a_port,b,b_port,speed\ngpu1 mlx5_1,,leaf,1,HDR100\nleaf,2,gpu1,mlx5_0,\n")
    rendered = deployed(tmp_path, FILE.replace("spines: spine, technology: ethernet", "cables: cables.csv"))
    assert rendered["expected"]["links"]["rates"] == {"mlx5_1": 100}


def test_an_older_leaf_of_a_list_lowers_the_rate_of_its_own_nics_alone(tmp_path: Path) -> None:
    (tmp_path / "cables.csv").write_text("a,a_port,b,b_port\ngpu1  mlx5_1,,old,1\nleaf,2,gpu1,mlx5_0\n")
    section = 'cables: cables.csv, technology: infiniband, switches: {"old": {speed: EDR}}'
    rendered = deployed(tmp_path, FILE.replace("spines: spine, technology: ethernet", section))
    assert rendered["expected"]["links"]["rates"] == {"mlx5_1": 100}
