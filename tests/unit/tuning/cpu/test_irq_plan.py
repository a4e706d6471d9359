"""Which CPU each vector of a NIC gets, whichever vectors, names and drivers there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import cpu_numbers, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpu.irq_plan import (
    IrqPlan,
    WantedNic,
    plan,
    vectors,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.machine_topology import (
    network_functions,
    read_machine,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.topology_model import Machine
from tests.kit import sentences
from tests.unit.tuning.conftest import Machines
from tests.unit.tuning.trees import MACHINES, MachineTree, description

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
XEON = "0000:98:00.0"


def functions_of(machine: Machine) -> dict[str, int | None]:
    return {nic.address: nic.numa_node for nic in machine.nics}


def planned(machine: Machine, *names: str, kept: tuple[int, ...] = ()) -> IrqPlan:
    """Return the plan for some NICs, without names for all that have RDMA."""
    wanted = names or tuple(nic.names[0] for nic in machine.nics if nic.rdma)
    return plan(machine, functions_of(machine), [WantedNic(name) for name in wanted], kept)


@pytest.mark.parametrize("name", MACHINES)
def test_all_vectors_stay_at_the_nics_node_and_use_each_core_alike(machine_of: Machines, name: str) -> None:
    machine = machine_of(name)
    made = planned(machine)
    assert made.skipped == {}
    assert {nic.name for nic in made.nics} == {nic.names[0] for nic in machine.nics if nic.rdma}
    core_of = {cpu: core.number for core in machine.cores for cpu in core.cpus}
    for nic in made.nics:
        home = machine.node(nic.node)
        assert home is not None
        assert nic.near == set(home.cpus) == set(nic.cpus)
        cores = len(home.cpus) // len(machine.cores[0].cpus)
        assert len({core_of[nic.cpu(vector)] for vector in range(cores)}) == cores


@pytest.mark.parametrize("name", MACHINES)
def test_the_first_vectors_of_all_nics_share_no_core(machine_of: Machines, name: str) -> None:
    """The cores of a NUMA node are divided among its adapters."""
    machine = machine_of(name)
    made = planned(machine)
    for node in machine.cpu_nodes:
        here = [nic for nic in made.nics if nic.node == node.number]
        adapters = [one for one in functions_of(machine).values() if machine.home_of(one) == node]
        share = len(node.cpus) // len(machine.cores[0].cpus) // max(len(adapters), 1)
        used = Counter(nic.cpu(vector) for nic in here for vector in range(share))
        assert set(used.values()) <= {1}


def test_when_every_core_of_a_node_has_one_the_second_threads_follow(machine_of: Machines) -> None:
    (nic,) = planned(machine_of("epyc-nps4"), "mlx5_0").nics
    assert [nic.cpu(vector) for vector in range(18)] == [*range(32, 40), *range(96, 104), 32, 33]


def test_interrupts_go_to_the_cpus_that_slurm_keeps_from_jobs(machine_of: Machines) -> None:
    machine = machine_of("xeon-interleaved")
    kept = cpu_numbers(machine.cores, (0, 1, 32, 33))
    assert fold(kept) == "0-3,64-67"
    (nic,) = planned(machine, kept=kept).nics
    assert [nic.cpu(vector) for vector in range(5)] == [1, 3, 65, 67, 1]
    assert not nic.near <= set(nic.cpus)


def test_cpus_kept_elsewhere_leave_a_node_its_own(machine_of: Machines) -> None:
    (nic,) = planned(machine_of("xeon-interleaved"), kept=(0, 2)).nics
    assert (nic.cpu(0), len(nic.cpus)) == (1, 64)


def test_nics_are_found_by_rdma_device_interface_or_pci_address(machine_of: Machines) -> None:
    machine = machine_of("b200-hgx")
    assert [nic.address for nic in planned(machine, "mlx5_4", "ibs7").nics] == ["0000:18:00.0", "0000:dc:00.0"]
    assert [nic.address for nic in planned(machine_of("h100-hgx"), "eno3").nics] == ["0000:2a:00.0"]
    # The address of a cluster file goes first: the name is the one that the role rdma will give.
    wanted = [WantedNic("mlx5_4", "0000:40:00.0")]
    assert plan(machine, functions_of(machine), wanted).nics[0].address == "0000:40:00.0"


def test_a_name_that_no_nic_has_yet_is_said(machine_of: Machines) -> None:
    made = planned(machine_of("b200-hgx"), "mlx5_4", "rail3")
    assert ([nic.name for nic in made.nics], list(made.skipped)) == (["mlx5_4"], ["rail3"])
    wanted = [WantedNic("a", "0000:ff:00.0")]
    missing = plan(machine_of("b200-hgx"), {}, wanted).skipped
    assert "0000:ff:00.0" in missing["a"]
    sentences.check(SENTENCES, "interrupts of a NIC that is not found", [*made.skipped.values(), *missing.values()])


def test_a_nic_of_unknown_place_is_left_alone_with_the_reason(machine_of: Machines) -> None:
    machine = machine_of("xeon-interleaved")
    made = planned(replace(machine, nics=tuple(replace(nic, numa_node=None) for nic in machine.nics)))
    assert (made.nics, list(made.skipped)) == ((), ["mlx5_0"])
    assert "unknown (-1)" in made.skipped["mlx5_0"]


def test_a_node_whose_cores_could_not_be_read_is_left_alone(machine_of: Machines) -> None:
    made = planned(replace(machine_of("xeon-interleaved"), cores=()), "mlx5_0")
    assert list(made.skipped) == ["mlx5_0"]
    assert all(value in made.skipped["mlx5_0"] for value in (f"{XEON}: ", "cores", "NUMA node 1"))
    sentences.check(SENTENCES, "interrupts of a NIC whose cores could not be read", made.skipped.values())


def test_the_plan_is_one_whichever_vectors_drivers_and_names_there_are(tmp_path: Path) -> None:
    """mlx5 makes vectors on demand, a driver loads late, and the role rdma renames: no CPU of another NIC may change."""
    told = description("h100-hgx")
    wanted = [WantedNic(f"mlx5_{number}") for number in range(10)]
    made = {}
    for count in (0, 1, 5, None):
        top = tmp_path / str(count)
        MachineTree(top, told, vectors=count)
        made[count] = plan(read_machine(str(top)), network_functions(Root(str(top))), wanted)
    assert len(made[1].nics) == 10
    assert made[0] == made[1] == made[5] == made[None]
    late = {**told, "devices": [{**one, "nic": ""} if one.get("nic") == "mlx5_0" else one for one in told["devices"]]}
    late["devices"] = [{**one, "net": ""} if one["path"][-1] == "0000:18:00.0" else one for one in late["devices"]]
    MachineTree(tmp_path / "late", late)
    root = Root(str(tmp_path / "late"))
    found = plan(read_machine(str(root.top)), network_functions(root), wanted)
    assert list(found.skipped) == ["mlx5_0"]
    assert found.nics == tuple(nic for nic in made[1].nics if nic.name != "mlx5_0")


@pytest.mark.parametrize(
    ("hwirq", "index"),
    [("3", 3), (str(0x18 << 19 | 3), 3), (str(2047), 2047), (None, 700), ("", 700)],
)
def test_the_index_of_a_vector_is_in_the_number_of_the_hardware(tmp_path: Path, hwirq: str | None, index: int) -> None:
    for path, text in {
        f"sys/bus/pci/devices/{XEON}/msi_irqs/700": "msix\n",
        "proc/irq/700/smp_affinity_list": "0\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    if hwirq is not None:
        (tmp_path / "sys/kernel/irq/700").mkdir(parents=True)
        (tmp_path / "sys/kernel/irq/700/hwirq").write_text(f"{hwirq}\n")
    assert vectors(Root(str(tmp_path)), XEON) == {700: index}


def test_a_vector_that_the_driver_does_not_use_yet_is_no_interrupt(
    tmp_path: Path, tree_of: Callable[[str], Path]
) -> None:
    """The kernel makes its folder in /proc/irq with its first handler."""
    (tmp_path / f"sys/bus/pci/devices/{XEON}/msi_irqs").mkdir(parents=True)
    (tmp_path / f"sys/bus/pci/devices/{XEON}/msi_irqs/700").write_text("msix\n")
    assert vectors(Root(str(tmp_path)), XEON) == {}
    assert vectors(Root(str(tree_of("xeon-interleaved"))), XEON) == {600: 0, 601: 1, 602: 2, 603: 3}
