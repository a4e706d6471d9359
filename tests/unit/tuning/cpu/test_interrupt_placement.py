"""Moving interrupts of NICs to their planned CPUs, and what is found instead."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpu import interrupt_placement
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpu.interrupt_placement import (
    RECORD,
    apply,
    compare,
    drift,
    move,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cpu.irq_plan import IrqPlan, NicPlan
from tests.kit import sentences
from tests.unit.tuning.trees import MachineTree, description

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
ADDRESS = "0000:98:00.0"
# Vectors 0 to 3 on the CPUs 1, 3, 1, 3; jobs have 5.
MADE = IrqPlan((NicPlan("mlx5_0", ADDRESS, 1, (1, 3), frozenset((1, 3, 5))),))


def vector(top: Path, irq: int, index: int, cpus: str, wanted: str | None = None) -> None:
    """Have an interrupt: the CPU that it goes to, and those that it may go to."""
    texts = {
        f"sys/bus/pci/devices/{ADDRESS}/msi_irqs/{irq}": "msix",
        f"sys/kernel/irq/{irq}/hwirq": str(index),
        f"proc/irq/{irq}/smp_affinity_list": cpus if wanted is None else wanted,
        f"proc/irq/{irq}/effective_affinity_list": cpus,
    }
    for path, text in texts.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(f"{text}\n")


def affinity(top: Path, irq: int) -> str:
    return (top / f"proc/irq/{irq}/smp_affinity_list").read_text().strip()


def rows(top: Path, *managed: int) -> list[tuple[str, str, str, str]]:
    found = compare(Root(str(top)), MADE, managed)
    return [(one.kind, one.severity, one.expected, one.found) for one in found]


def test_each_vector_is_moved_to_its_own_cpu(tmp_path: Path) -> None:
    for irq, index in ((600, 0), (601, 1), (602, 2), (609, 3)):
        vector(tmp_path, irq, index, "0-7")
    vector(tmp_path, 604, 5, "3")
    assert move(Root(str(tmp_path)), MADE) == interrupt_placement.Moved((600, 601, 602, 609), (), {})
    assert [affinity(tmp_path, irq) for irq in (600, 601, 602, 609)] == ["1", "3", "1", "3"]
    assert move(Root(str(tmp_path)), MADE).moved == ()


def test_an_interrupt_anywhere_in_the_nics_node_is_right(tmp_path: Path) -> None:
    vector(tmp_path, 600, 0, "3")
    vector(tmp_path, 601, 1, "1,3")
    assert rows(tmp_path) == []


def test_interrupts_elsewhere_are_one_finding_a_nic(tmp_path: Path) -> None:
    vector(tmp_path, 600, 0, "1")
    vector(tmp_path, 601, 1, "0")
    vector(tmp_path, 602, 2, "0-7")
    (found,) = compare(Root(str(tmp_path)), MADE)
    assert (found.kind, found.severity, found.where) == ("interrupt", "error", "interrupts of mlx5_0")
    assert (found.expected, found.found) == (
        "CPUs 1,3,5 of NUMA node 1",
        "2 of 3 elsewhere, such as interrupt 601 on CPU 0",
    )
    sentences.check(SENTENCES, "interrupts outside the NUMA node of their NIC", [str(found)])


def test_interrupts_on_cores_of_jobs_are_a_notice(tmp_path: Path) -> None:
    """A vector is there for up to a minute before it is placed."""
    vector(tmp_path, 600, 0, "5")
    (found,) = compare(Root(str(tmp_path)), MADE)
    assert (found.kind, found.severity) == ("interrupt-on-jobs", "notice")
    assert (found.expected.startswith("CPUs 1,3,"), "interrupt 600 on CPU 5" in found.found) == (
        True,
        True,
    )
    sentences.check(SENTENCES, "interrupts on cores of jobs", [str(found)])


@pytest.mark.parametrize(
    ("effective", "allowed", "found"),
    [
        ("", "3", []),
        ("x", "3", []),
        ("1", "0-7", []),
        ("0", "0-7", ["interrupt"]),
        # It moves when it next occurs.
        ("0", "3", []),
        ("1", "0", ["interrupt"]),
        ("0", "5", ["interrupt-on-jobs"]),
    ],
)
def test_an_interrupt_is_where_it_goes_next(tmp_path: Path, effective: str, allowed: str, found: list[str]) -> None:
    vector(tmp_path, 600, 0, effective, wanted=allowed)
    assert [row[0] for row in rows(tmp_path)] == found


def test_a_kernel_without_effective_cpus_has_the_allowed_ones(tmp_path: Path) -> None:
    vector(tmp_path, 600, 0, "0")
    (tmp_path / "proc/irq/600/effective_affinity_list").unlink()
    assert [row[0] for row in rows(tmp_path)] == ["interrupt"]


def test_a_nic_that_is_not_planned_is_a_notice(tmp_path: Path) -> None:
    (found,) = compare(Root(str(tmp_path)), IrqPlan((), {"mlx5_7": "why"}))
    assert (found.kind, found.severity, "mlx5_7" in found.where, "why" in found.found) == (
        "interrupt-skipped", "notice", True, True,
    )  # fmt: skip


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
    [
        (errno.EIO, (601,), {}),
        (errno.EPERM, (601,), {}),
        (errno.EINVAL, (), {601: "refused"}),
        (errno.ENOENT, (), {}),
    ],
)
def test_that_an_interrupt_is_managed_is_seen_when_it_is_tried(
    tmp_path: Path, refusing: Callable[[int], None], number: int, managed: tuple[int, ...], failed: dict[int, str]
) -> None:
    vector(tmp_path, 601, 1, "0")
    refusing(number)
    done = move(Root(str(tmp_path)), MADE)
    assert (done.moved, done.managed, done.failed) == ((), managed, failed)


SETTINGS = {
    # Of an H100 with system_cores: 2, as Slurm counts.
    "irqs": {"cores": [0, 1, 56, 57], "nics": [{"name": f"mlx5_{number}", "pci": ""} for number in range(10)]}
}
_KEPT = {0: {0, 1, 112, 113}, 1: {56, 57, 168, 169}}


def born_at_their_node(top: Path, told: dict[str, Any]) -> None:
    """Have all interrupts where mlx5 lets them begin: on any CPU of the NIC's NUMA node."""
    cpus = {node["number"]: parse(node["cpus"]) for node in told["nodes"]}
    for one in told["devices"]:
        for number, irq in enumerate(parse(one.get("irqs", ""))):
            for name in ("smp_affinity_list", "effective_affinity_list"):
                file = top / f"proc/irq/{irq}/{name}"
                if file.exists() and file.read_text().strip() in ("0", "0-223"):
                    file.write_text(f"{cpus[one['numa']][number + 20]}\n")


def places(top: Path) -> dict[str, int]:
    return {path.parent.name: int(path.read_text()) for path in top.glob("proc/irq/*/smp_affinity_list")}


def settle(top: Path) -> None:
    """Have the kernel move each interrupt where it was told to."""
    for path in top.glob("proc/irq/*/smp_affinity_list"):
        path.with_name("effective_affinity_list").write_text(path.read_text())


def test_vectors_made_on_demand_change_no_place_and_verify_stays_silent(tmp_path: Path) -> None:
    told = description("h100-hgx")
    told["devices"] = [one for one in told["devices"] if one.get("net") != "eno3"]
    root = Root(str(tmp_path))
    MachineTree(tmp_path, told, vectors=1)
    born_at_their_node(tmp_path, told)
    assert list(apply(root, SETTINGS)) == []
    settle(tmp_path)
    assert list(drift(root, SETTINGS)) == []
    before = places(tmp_path)
    assert len(before) == 10
    MachineTree(tmp_path / "all", told)
    born_at_their_node(tmp_path / "all", told)
    for path in sorted((tmp_path / "all").glob("proc/irq/*/*")) + sorted((tmp_path / "all").rglob("msi_irqs/*")):
        target = tmp_path / path.relative_to(tmp_path / "all")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    for path in (tmp_path / "all").glob("sys/kernel/irq/*/hwirq"):
        target = tmp_path / path.relative_to(tmp_path / "all")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    assert len(places(tmp_path)) == 72
    # Until the timer comes, they are on cores of jobs, and no error.
    assert {(one.kind, one.severity) for one in drift(root, SETTINGS)} == {("interrupt-on-jobs", "notice")}
    assert list(apply(root, SETTINGS)) == []
    settle(tmp_path)
    assert list(drift(root, SETTINGS)) == []
    after = places(tmp_path)
    assert {irq: cpu for irq, cpu in after.items() if irq in before} == before
    node_of = {str(irq): one["numa"] for one in told["devices"] for irq in parse(one.get("irqs", ""))}
    assert all(cpu in _KEPT[node_of[irq]] for irq, cpu in after.items())


def test_the_unit_records_managed_interrupts_and_verify_leaves_them_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = description("xeon-interleaved")
    MachineTree(tmp_path, told)
    settings = {"irqs": {"cores": [], "nics": [{"name": "mlx5_0", "pci": ""}]}}
    plain = Path.write_text

    def write(self: Path, text: str, *args: Any, **more: Any) -> int:
        if self.name == "smp_affinity_list":
            raise OSError(errno.EIO, "Input/output error")
        return plain(self, text, *args, **more)

    monkeypatch.setattr(Path, "write_text", write)
    root = Root(str(tmp_path))
    assert [one.kind for one in drift(root, settings)] == ["interrupt"]
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    for _run in range(2):
        assert interrupt_placement.main([str(tmp_path / "settings.json"), str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert (output.err, len(output.out.splitlines())) == ("", 1)
    assert json.loads((tmp_path / RECORD).read_text()) == [600, 601, 602, 603]
    assert list(drift(root, settings)) == []
    (tmp_path / RECORD).write_text("broken")
    assert [one.kind for one in drift(root, settings)] == ["interrupt"]


def test_without_the_setting_nothing_is_moved_or_compared(tmp_path: Path) -> None:
    vector(tmp_path, 600, 0, "0")
    assert (list(apply(Root(str(tmp_path)), {})), list(drift(Root(str(tmp_path)), {}))) == ([], [])
    assert affinity(tmp_path, 600) == "0"


def test_an_interrupt_that_cannot_be_moved_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        interrupt_placement, "move", lambda *_: interrupt_placement.Moved((), (), {41: "Invalid argument"})
    )
    monkeypatch.setattr(interrupt_placement, "planned", lambda *_: IrqPlan(()))
    (line,) = apply(Root(str(tmp_path)), {"irqs": {}})
    assert [value in line for value in ("41", "Invalid argument")] == [True, True]
