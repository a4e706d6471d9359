"""Where interrupts of NICs are sent, and what is found instead."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import cpu_numbers, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpu.irq_plan import (
    IrqPlan,
    compare,
    interrupts,
    move,
    plan,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.topology_model import Machine
from tests.kit import sentences
from tests.unit.tuning.conftest import Machines
from tests.unit.tuning.trees import MACHINES

SENTENCES = Path(__file__).parents[1] / "sentences.txt"


def irqs_of(machine: Machine, top: Path) -> dict[str, tuple[int, ...]]:
    return {nic.address: interrupts(Root(str(top)), nic) for nic in machine.nics}


@pytest.mark.parametrize("name", MACHINES)
def test_all_interrupts_stay_at_the_nics_node_each_on_a_core_of_its_own(
    machine_of: Machines, tree_of: Callable[[str], Path], name: str
) -> None:
    machine = machine_of(name)
    irqs = irqs_of(machine, tree_of(name))
    made = plan(machine, irqs)
    assert made.skipped == {}
    nics = {nic.names[0]: nic for nic in machine.nics if nic.rdma}
    assert set(made.nics.values()) == set(nics)
    assert sorted(made.wanted) == sorted(irq for nic in nics.values() for irq in irqs[nic.address])
    core_of = {str(cpu): core.number for core in machine.cores for cpu in core.cpus}
    for node in machine.cpu_nodes:
        here = [irq for irq, nic in made.nics.items() if machine.home(nics[nic]) == node]
        assert {int(made.wanted[irq]) for irq in here} <= set(node.cpus)
        cores = len(node.cpus) // len(machine.cores[0].cpus)
        assert len({core_of[made.wanted[irq]] for irq in here}) == min(len(here), cores)


def test_when_every_core_of_a_node_has_one_the_second_threads_follow(machine_of: Machines) -> None:
    made = plan(machine_of("epyc-nps4"), {"0000:a1:00.0": range(500, 518)})
    wanted = [made.wanted[irq] for irq in range(500, 518)]
    assert wanted == [*map(str, range(32, 40)), *map(str, range(96, 104)), "32", "33"]


def test_interrupts_go_to_the_cpus_that_slurm_keeps_from_jobs(
    machine_of: Machines, tree_of: Callable[[str], Path]
) -> None:
    machine = machine_of("xeon-interleaved")
    kept = cpu_numbers(machine.cores, (0, 1, 32, 33))
    assert fold(kept) == "0-3,64-67"
    made = plan(machine, irqs_of(machine, tree_of("xeon-interleaved")), kept)
    assert made.wanted == {600: "1", 601: "3", 602: "65", 603: "67"}


def test_cpus_kept_elsewhere_leave_a_node_its_own(machine_of: Machines) -> None:
    made = plan(machine_of("xeon-interleaved"), {"0000:98:00.0": [600]}, spec_cpus=[0, 2])
    assert made.wanted == {600: "1"}


def test_only_nics_that_are_named_are_planned(machine_of: Machines, tree_of: Callable[[str], Path]) -> None:
    machine = machine_of("b200-hgx")
    irqs = irqs_of(machine, tree_of("b200-hgx"))
    assert set(plan(machine, irqs, names=["mlx5_4", "ibs7"]).nics.values()) == {"mlx5_4", "mlx5_15"}
    # What has no RDMA is planned only by name.
    h100 = machine_of("h100-hgx")
    irqs = irqs_of(h100, tree_of("h100-hgx"))
    assert "eno3" not in plan(h100, irqs).nics.values()
    assert sorted(plan(h100, irqs, names=["eno3"]).wanted) == [288, 289]


def test_a_nic_of_unknown_place_is_left_alone_with_the_reason(machine_of: Machines) -> None:
    machine = machine_of("xeon-interleaved")
    machine = replace(machine, nics=tuple(replace(nic, numa_node=None) for nic in machine.nics))
    made = plan(machine, {"0000:98:00.0": [600]})
    assert (made.wanted, list(made.skipped)) == ({}, ["mlx5_0"])
    assert "unknown (-1)" in made.skipped["mlx5_0"]


def test_a_node_whose_cores_could_not_be_read_is_left_alone(machine_of: Machines) -> None:
    made = plan(replace(machine_of("xeon-interleaved"), cores=()), {"0000:98:00.0": [600]})
    assert list(made.skipped) == ["mlx5_0"]
    assert all(value in made.skipped["mlx5_0"] for value in ("0000:98:00.0: ", "cores", "NUMA node 1"))
    sentences.check(SENTENCES, "interrupts of a NIC whose cores could not be read", made.skipped.values())


def test_without_a_list_in_sysfs_the_table_of_interrupts_tells(machine_of: Machines, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/interrupts").write_text(
        "            CPU0       CPU1\n"
        "  41:          0          1  IR-PCI-MSIX-0000:18:00.0    0-edge      mlx5_async0@pci:0000:18:00.0\n"
        "  42:          7          0  IR-PCI-MSIX-0000:18:00.0    1-edge      mlx5_comp0@pci:0000:18:00.0\n"
        "  43:          0          0  IR-PCI-MSIX-0000:18:00.1    1-edge      mlx5_comp0@pci:0000:18:00.1\n"
        "  44:          0          0  IR-PCI-MSIX    1-edge      ibs0-3\n"
        "  45:          0          0  IR-PCI-MSIX    1-edge      ibs01-3\n"
        " NMI:          0          0  Non-maskable interrupts at 0000:18:00.0\n"
    )
    assert interrupts(Root(str(tmp_path)), machine_of("h100-hgx").nics[0]) == (41, 42, 44)


MADE = IrqPlan({600: "1", 601: "3", 602: "5"}, dict.fromkeys((600, 601, 602), "mlx5_0"))


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Three interrupts: in place, elsewhere, and nowhere to be found."""
    for irq, cpus in {600: "1", 601: "0"}.items():
        base = tmp_path / f"proc/irq/{irq}"
        base.mkdir(parents=True)
        (base / "smp_affinity_list").write_text(f"{cpus}\n")
        (base / "effective_affinity_list").write_text(f"{cpus}\n")
    return tmp_path


def test_what_goes_elsewhere_is_a_row_with_its_remedy(proc: Path) -> None:
    rows = compare(Root(str(proc)), MADE)
    assert [(row.where, row.expected, row.found) for row in rows] == [
        ("interrupt 601 of mlx5_0", "CPU 3", "CPU 0"),
        ("interrupt 602 of mlx5_0", "CPU 5", "no such interrupt"),
    ]
    assert rows[0].remedy.startswith("echo 3 >/proc/irq/601/smp_affinity_list; ")
    assert not any(row.reboot for row in rows)


def test_managed_interrupts_are_no_drift(proc: Path) -> None:
    assert [row.where for row in compare(Root(str(proc)), MADE, managed=[601])] == ["interrupt 602 of mlx5_0"]


@pytest.mark.parametrize("text", ["", "0-3", "x"])
def test_an_interrupt_has_to_stay_within(proc: Path, text: str) -> None:
    (proc / "proc/irq/600/effective_affinity_list").write_text(text)
    assert compare(Root(str(proc)), MADE)[0].found == f"CPU {text or 'none'}"


def test_only_what_is_elsewhere_is_moved(proc: Path) -> None:
    made = IrqPlan({600: "1", 601: "3"}, dict.fromkeys((600, 601), "mlx5_0"))
    done = move(Root(str(proc)), made)
    assert (done.moved, done.managed, done.failed) == ((601,), (), {})
    assert (proc / "proc/irq/601/smp_affinity_list").read_text() == "3\n"
    assert move(Root(str(proc)), made).moved == ()


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Have the kernel refuse every write with an error."""

    def refuse(number: int) -> None:
        def write(self: Path, *args: Any) -> int:
            raise OSError(number, "refused", str(self))

        monkeypatch.setattr(Path, "write_text", write)

    return refuse


@pytest.mark.parametrize(
    ("number", "managed", "failed"),
    [(errno.EIO, (601,), {}), (errno.EPERM, (), {601: "refused"})],
)
def test_that_an_interrupt_is_managed_is_seen_when_it_is_tried(
    proc: Path, refusing: Callable[[int], None], number: int, managed: tuple[int, ...], failed: dict[int, str]
) -> None:
    refusing(number)
    done = move(Root(str(proc)), IrqPlan({601: "3"}, {601: "mlx5_0"}))
    assert (done.moved, done.managed, done.failed) == ((), managed, failed)
