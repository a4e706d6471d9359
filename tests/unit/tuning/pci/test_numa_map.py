"""What is planned against what a machine has, and what a machine has as a plan."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.numa_map import (
    PlannedNode,
    ProfileTopology,
    compare,
    plan_from,
    record,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.topology_model import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning.numa_plan import plan_of
from tests.kit import sentences
from tests.unit.tuning.conftest import Machines, cluster_file
from tests.unit.tuning.trees import MACHINES

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

H100 = ProfileTopology(
    sockets=2,
    cores_per_socket=56,
    threads_per_core=2,
    gpus=8,
    numa=(
        PlannedNode("0-55", (0, 1, 2, 3), ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")),
        PlannedNode("56-111", (4, 5, 6, 7), ("mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7")),
    ),
    nics=tuple(f"mlx5_{number}" for number in range(8)),
)


@pytest.fixture
def h100(machine_of: Machines) -> Machine:
    return machine_of("h100-hgx")


def with_gpu(machine: Machine, index: int, **changes: Any) -> Machine:
    gpus = list(machine.gpus)
    gpus[index] = replace(gpus[index], **changes)
    return replace(machine, gpus=tuple(gpus))


def with_nic(machine: Machine, name: str, **changes: Any) -> Machine:
    nics = [replace(nic, **changes) if name in nic.names else nic for nic in machine.nics]
    return replace(machine, nics=tuple(nics))


def rows(machine: Machine) -> list[tuple[str, str, str]]:
    return [(row.where, row.expected, row.found) for row in compare(H100, machine)]


def test_a_machine_as_planned_has_no_difference(machine_of: Machines) -> None:
    assert compare(H100, machine_of("h100-hgx")) == []


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_recorded_of_a_machine_is_a_profile_that_it_fits(
    machine_of: Machines, tmp_path: Path, name: str
) -> None:
    machine = machine_of(name)
    told, problems = record(machine)
    assert problems == []
    cluster = load(str(cluster_file(tmp_path, machine, told)))
    plan = plan_from(plan_of(cluster.profiles["node"]))
    assert plan.gpus == len(machine.gpus)
    assert sorted(gpu for node in plan.numa for gpu in node.gpus) == list(range(len(machine.gpus)))
    assert compare(plan, machine) == []


def test_a_plan_has_the_rails_in_their_order(machine_of: Machines, tmp_path: Path) -> None:
    machine = machine_of("gb200-tray")
    told, _ = record(machine, ["mlx5_0", "mlx5_1", "mlx5_2"])
    path = cluster_file(tmp_path, machine, told)
    whole = yaml.safe_load(path.read_text())
    nics = [{"name": "mlx5_0", "rail": 1}, {"name": "mlx5_1", "rail": 0}, {"name": "mlx5_2"}]
    whole["profiles"]["node"]["nics"] = nics
    path.write_text(yaml.safe_dump(whole))
    plan = plan_from(plan_of(load(str(path)).profiles["node"]))
    assert (plan.nics, plan.rails) == (("mlx5_0", "mlx5_1", "mlx5_2"), ("mlx5_1", "mlx5_0"))


def test_what_is_recorded_is_ready_for_yaml(machine_of: Machines) -> None:
    told, _ = record(machine_of("gb200-tray"), nics=["mlx5_0", "mlx5_1", "mlx5_3", "ibP18p3s0"])
    assert yaml.safe_load(yaml.safe_dump(told)) == {
        "sockets": 2,
        "cores_per_socket": 72,
        "threads_per_core": 1,
        "numa": [
            {"cores": "0-71", "gpus": "0-1", "nics": ["mlx5_0", "mlx5_1"]},
            {"cores": "72-143", "gpus": "2-3", "nics": ["mlx5_3", "ibP18p3s0"]},
        ],
    }


def test_nodes_without_devices_are_recorded_too_for_they_are_counted(machine_of: Machines) -> None:
    told, _ = record(machine_of("epyc-nps4"))
    assert told["numa"][:4] == [
        {"cores": "0-7"},
        {"cores": "8-15", "gpus": "1"},
        {"cores": "16-23"},
        {"cores": "24-31", "gpus": "0"},
    ]


def test_a_gpu_of_unknown_place_leaves_all_gpus_out_of_the_record(h100: Machine) -> None:
    told, problems = record(with_gpu(h100, 3, numa_node=None))
    assert [sorted(node) for node in told["numa"]] == [["cores", "nics"], ["cores", "nics"]]
    [problem] = problems
    assert problem.startswith("GPU 3 at 0000:61:00.0: ")
    assert "(-1)" in problem
    sentences.check(SENTENCES, "a GPU of unknown place", [problem])


def test_a_gpu_at_another_node_is_named_with_both(h100: Machine) -> None:
    [row] = compare(H100, with_gpu(h100, 3, numa_node=1))
    assert (row.where, row.expected, row.found) == ("GPU 3 at 0000:61:00.0", "NUMA node 0", "NUMA node 1")
    assert "`numa`" in row.remedy
    sentences.check(SENTENCES, "a GPU at another NUMA node", [row])


def test_a_gpu_of_which_the_kernel_knows_no_node_is_the_firmwares_matter(h100: Machine) -> None:
    [row] = compare(H100, with_gpu(h100, 3, numa_node=None))
    assert (row.where, row.found, row.reboot) == ("GPU 3 at 0000:61:00.0", "unknown (-1)", True)
    assert all(value in row.remedy for value in ("BIOS", "ACPI SRAT", "virtual machine"))
    sentences.check(SENTENCES, "a GPU of which the kernel knows no NUMA node", [row])


def test_a_gpu_that_is_missing_is_one_row_and_no_gpu_is_compared(h100: Machine) -> None:
    [(setting, wanted, found)] = rows(replace(h100, gpus=h100.gpus[1:]))
    assert (setting, wanted) == ("GPUs", "8")
    assert found.startswith("7: 0000:43:00.0, ")


def test_a_gpu_more_than_planned_is_the_profiles_mistake(machine_of: Machines) -> None:
    [row] = compare(replace(H100, gpus=4), machine_of("h100-hgx"))
    assert (row.where, row.expected) == ("GPUs", "4")
    assert "`gpus.count`" in row.remedy
    sentences.check(SENTENCES, "more GPUs than planned", [row])


def test_a_profile_without_gpus_asks_for_none(machine_of: Machines) -> None:
    assert compare(replace(H100, gpus=None, numa=(), nics=()), machine_of("h100-hgx")) == []


def test_other_numa_nodes_than_planned_are_one_row_that_says_what_to_set(machine_of: Machines) -> None:
    # A profile of NPS1 on a machine whose BIOS has NPS4.
    halves = (PlannedNode("0-63", (0, 1, 2, 3)), PlannedNode("64-127", (4, 5, 6, 7)))
    [row] = compare(ProfileTopology(2, 64, 2, 8, halves, ("mlx5_0",)), machine_of("a100-hgx"))
    assert (row.where, row.expected, row.found, row.reboot) == ("NUMA nodes with CPUs", "2", "8", True)
    assert "Nodes Per Socket (NPS, EPYC)" in row.remedy
    sentences.check(SENTENCES, "other NUMA nodes than planned", [row])


def test_a_missing_nic_is_named_with_those_that_the_profile_does_not_know(h100: Machine) -> None:
    [(setting, wanted, found)] = rows(with_nic(h100, "mlx5_0", rdma=("ibp24s0",)))
    assert (setting, wanted) == ("NIC mlx5_0", "present")
    assert "ibp24s0 at 0000:18:00.0, mlx5_8 at " in found
    sentences.check(SENTENCES, "a NIC that is missing", [found])


def test_a_nic_may_be_known_by_its_interface(machine_of: Machines) -> None:
    plan = replace(H100, nics=(*H100.nics, "ens6f0np0"))
    assert compare(plan, machine_of("h100-hgx")) == []


def test_a_nic_at_another_node_is_named(h100: Machine) -> None:
    assert rows(with_nic(h100, "mlx5_0", numa_node=1)) == [("NIC mlx5_0 at 0000:18:00.0", "NUMA node 0", "NUMA node 1")]


def test_cores_are_compared_by_slurms_numbers(machine_of: Machines) -> None:
    # By Linux's numbers, even and odd, this profile would be right.
    nodes = (PlannedNode("0-62:2", (0,)), PlannedNode("1-63:2", (1,)))
    found = compare(ProfileTopology(2, 32, 2, 2, nodes), machine_of("xeon-interleaved"))
    assert [(row.where, row.found) for row in found] == [
        ("cores of NUMA node 0", "0-31"),
        ("cores of NUMA node 1", "32-63"),
    ]


@pytest.mark.parametrize(
    "change", [{"threads_per_core": 1}, {"cores_per_socket": 48}, {"sockets": 1, "cores_per_socket": 112}]
)
def test_other_processors_are_one_row(machine_of: Machines, change: dict[str, Any]) -> None:
    first = compare(replace(H100, **change), machine_of("h100-hgx"))[0]
    assert (first.where, re.findall(r"\d+", first.found), first.reboot) == ("processors", ["2", "112", "2"], True)
    if "threads_per_core" in change:
        sentences.check(SENTENCES, "other processors", [first])


def test_a_numa_node_may_be_a_socket_to_slurm(machine_of: Machines) -> None:
    assert compare(ProfileTopology(8, 16, 2, 8), machine_of("a100-hgx")) == []
