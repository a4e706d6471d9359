"""Whole machines, read from trees in the shapes of sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpu import interrupt_placement
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.machine_topology import (
    read_machine,
    size_name,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.nccl_files import topology
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.numa_map import (
    ProfileTopology,
    compare,
    record,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.topology_model import PcieLink, Processor
from tests.kit import sentences
from tests.unit.tuning.conftest import Machines
from tests.unit.tuning.trees import MACHINES, MachineTree, description

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

# Sockets, cores, NUMA nodes with CPUs and without, NUMA nodes of the GPUs, of the NICs with RDMA.
SHAPES = {
    "a100-hgx": (2, 128, 8, 0, [3, 3, 1, 1, 7, 7, 5, 5], [3, 3, 1, 1, 0, 7, 7, 5, 5]),
    "b200-hgx": (2, 112, 2, 0, [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]),
    "epyc-nps4": (2, 64, 8, 0, [3, 1, 7, 5], [4]),
    "gb200-tray": (2, 144, 2, 5, [0, 0, 1, 1], [0, 0, 0, 1, 1]),
    "h100-hgx": (2, 112, 2, 0, [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
    "xeon-interleaved": (2, 64, 2, 0, [0, 1], [1]),
}


def test_every_description_has_its_expectation() -> None:
    assert sorted(SHAPES) == MACHINES


@pytest.mark.parametrize("name", SHAPES)
def test_a_machine_is_read_whole_and_without_a_problem(machine_of: Machines, name: str) -> None:
    machine = machine_of(name)
    assert machine.problems == ()
    without = [node.number for node in machine.nodes if not node.cpus]
    assert (
        machine.sockets,
        len(machine.cores),
        len(machine.cpu_nodes),
        len(without),
        [gpu.numa_node for gpu in machine.gpus],
        [nic.numa_node for nic in machine.nics if nic.rdma],
    ) == SHAPES[name]
    assert sorted(cpu for core in machine.cores for cpu in core.cpus) == list(
        range(len(machine.cores) * len(machine.cores[0].cpus))
    )


def test_linux_numbers_in_turn_and_slurm_socket_by_socket(machine_of: Machines) -> None:
    cores = machine_of("xeon-interleaved").cores
    assert [cores[number].cpus for number in (0, 1, 31, 32, 63)] == [(0, 64), (2, 66), (62, 126), (1, 65), (63, 127)]
    assert [core.socket for core in cores] == [0] * 32 + [1] * 32


def test_gpus_in_other_pci_domains_are_found_in_order(machine_of: Machines) -> None:
    machine = machine_of("gb200-tray")
    assert [gpu.address for gpu in machine.gpus] == ["0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"]
    assert machine.gpus[2].path == ("0018:00:00.0", "0018:01:00.0")
    assert machine.processor == Processor("arm64", "ARM")


def test_a_device_knows_its_way_its_link_and_its_cpus(machine_of: Machines) -> None:
    machine = machine_of("a100-hgx")
    gpu = machine.gpus[0]
    assert gpu.path == ("0000:00:01.1", "0000:01:00.0", "0000:02:00.0", "0000:07:00.0")
    assert (fold(gpu.cpus), gpu.links[-1], gpu.pci_class) == (
        "48-63,176-191",
        PcieLink("16.0 GT/s PCIe", 16),
        "0x030200",
    )
    assert machine.processor == Processor("x86_64", "AuthenticAMD", 23, 49)


def test_nics_have_all_their_names(machine_of: Machines) -> None:
    found = {nic.address: (nic.names, nic.link) for nic in machine_of("h100-hgx").nics}
    assert found["0000:18:00.0"] == (("mlx5_0", "ibs0"), "InfiniBand")
    assert found["0000:29:00.0"] == (("mlx5_8", "ens6f0np0"), "Ethernet")
    assert found["0000:2a:00.0"] == (("eno3",), "")


def test_the_interface_of_a_virtio_nic_is_found(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path, description("xeon-interleaved"))
    tree.write("sys/bus/pci/devices/0000:98:00.0/virtio3/net/eth1/mtu", "1500")
    (nic,) = read_machine(str(tmp_path)).nics
    assert nic.names == ("mlx5_0", "ibp152s0", "eth1")


def test_memory_and_huge_pages_are_of_each_node(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path, description("gb200-tray"))
    tree.write("sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "12")
    nodes = {node.number: node for node in read_machine(str(tmp_path)).nodes}
    assert nodes[1].hugepages == {"2M": 0, "1G": 12}
    assert (nodes[1].memory_mib, nodes[3].memory_mib, nodes[3].hugepages) == (490112, 0, {})
    assert nodes[26].cpus == ()


def test_what_the_kernel_does_not_know_is_none(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path, description("xeon-interleaved"))
    tree.write("sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/numa_node", "-1")
    machine = read_machine(str(tmp_path))
    assert machine.gpus[0].numa_node is None
    assert machine.home(machine.gpus[0]) is None
    assert machine.problems == ()


def test_the_home_of_a_device_at_a_node_of_memory_alone_is_the_nearest_with_cpus(tmp_path: Path) -> None:
    told = description("gb200-tray")
    for device in told["devices"]:
        if device.get("gpu"):
            device["numa"] = {"0008": 2, "0009": 10, "0018": 18, "0019": 26}[device["path"][0][:4]]
    MachineTree(tmp_path, told)
    machine = read_machine(str(tmp_path))
    homes = [machine.home(gpu) for gpu in machine.gpus]
    assert [home and home.number for home in homes] == [0, 0, 1, 1]
    # Without distances nobody can tell.
    for node in machine.nodes:
        (tmp_path / f"sys/devices/system/node/node{node.number}/distance").unlink()
    machine = read_machine(str(tmp_path))
    assert [machine.home(gpu) for gpu in machine.gpus] == [None] * 4


def test_a_link_is_as_fast_as_its_slower_end(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path, description("xeon-interleaved"))
    tree.write("sys/devices/pci0000:16/0000:16:02.0/max_link_speed", "8.0 GT/s PCIe")
    tree.write("sys/devices/pci0000:c9/0000:c9:02.0/max_link_width", "8")
    tree.write("sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/max_link_speed", "Unknown")
    machine = read_machine(str(tmp_path))
    assert [gpu.links[-1] for gpu in machine.gpus] == [PcieLink("8.0 GT/s PCIe", 16), PcieLink("16.0 GT/s PCIe", 8)]
    assert machine.nics[0].links[-1] == PcieLink("16.0 GT/s PCIe", 16)


def test_virtual_functions_and_adapters_without_a_driver_are_no_nics(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path, description("xeon-interleaved"))
    base = "sys/devices/pci0000:97/0000:97:02.0"
    for address, names in {"0000:98:00.1": ["physfn", "infiniband/mlx5_1"], "0000:98:00.2": []}.items():
        tree.write(f"{base}/{address}/class", "0x020700")
        tree.write(f"{base}/{address}/vendor", "0x15b3")
        for name in names:
            (tmp_path / base / address / name).mkdir(parents=True)
        tree.link(f"sys/bus/pci/devices/{address}", f"../../../{base.removeprefix('sys/')}/{address}")
    assert [nic.address for nic in read_machine(str(tmp_path)).nics] == ["0000:98:00.0"]


def test_a_machine_without_numa_is_one_node(tmp_path: Path) -> None:
    for path, text in {
        "online": "0-1",
        "cpu0/topology/thread_siblings_list": "0-1",
        "cpu0/topology/physical_package_id": "0",
    }.items():
        target = tmp_path / "sys/devices/system/cpu" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n")
    machine = read_machine(str(tmp_path))
    assert [(node.number, node.cpus) for node in machine.cpu_nodes] == [(0, (0, 1))]
    assert [(core.number, core.cpus) for core in machine.cores] == [(0, (0, 1))]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path, description("xeon-interleaved"))
    tree.write("sys/devices/system/node/node1/cpulist", "1-")
    (tmp_path / "sys/devices/system/cpu/cpu3/topology/thread_siblings_list").unlink()
    problems = read_machine(str(tmp_path)).problems
    assert len(problems) == 2
    assert "/sys/devices/system/node/node1/cpulist: '1-' " in problems[0]
    assert problems[1].startswith("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list: ")
    sentences.check(SENTENCES, "what cannot be read of a machine", problems)


@pytest.mark.parametrize(("kib", "name"), [(64, "64K"), (2048, "2M"), (524288, "512M"), (1048576, "1G")])
def test_page_sizes_have_the_names_of_boot_parameters(kib: int, name: str) -> None:
    assert size_name(kib) == name


@pytest.mark.parametrize("junk", ["", "-1", "x 1-0", "99999999999999999999", "\u0663"])
def test_no_text_of_the_kernel_breaks_what_is_made_of_a_machine(tmp_path: Path, junk: str) -> None:
    """One file of every name has something else in it than it should have."""
    MachineTree(tmp_path, description("xeon-interleaved"))
    for path in {path.name: path for path in sorted(tmp_path.rglob("*")) if path.is_file()}.values():
        path.write_text(f"{junk}\n")
    machine = read_machine(str(tmp_path))
    told, _problems = record(machine)
    shape = ProfileTopology(told["sockets"], told["cores_per_socket"], told["threads_per_core"], len(machine.gpus))
    nics = [{"name": nic.names[0], "pci": ""} for nic in machine.nics]
    compare(shape, machine)
    list(interrupt_placement.drift(Root(str(tmp_path)), {"irqs": {"cores": [0], "nics": nics}}))
    assert topology(machine).count("<pci ") <= 3
