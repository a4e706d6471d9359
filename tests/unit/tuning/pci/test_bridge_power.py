"""Bridges above the GPUs of a machine as an HGX board has it are kept awake, and no others."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci import bridge_power
from tests.unit.tuning.trees import BRIDGE, MachineTree, description

PCI = "sys/bus/pci/devices"


@pytest.fixture
def machine(tmp_path: Path) -> Root:
    """Return the H100 machine; all bridges may sleep."""
    MachineTree(tmp_path, description("h100-hgx"))
    for function in (tmp_path / PCI).iterdir():
        if (function / "class").read_text().strip() == BRIDGE:
            (function / "power").mkdir()
            (function / "power/control").write_text("auto\n")
    return Root(str(tmp_path))


def states(machine: Root) -> dict[str, str]:
    return {path.parents[1].name: path.read_text().strip() for path in (machine.top / PCI).glob("*/power/control")}


def above_gpus() -> set[str]:
    return {bridge for one in description("h100-hgx")["devices"] if one.get("gpu") for bridge in one["path"][:-1]}


def test_exactly_the_bridges_above_gpus_are_kept_awake(machine: Root) -> None:
    (found,) = bridge_power.drift(machine)
    assert (found.kind, found.severity, found.expected, found.found) == ("bridge-power", ERROR, "on", "auto")
    assert f"{len(above_gpus())} of {len(above_gpus())}" in found.where
    assert list(bridge_power.apply(machine)) == []
    assert {name for name, state in states(machine).items() if state == "on"} == above_gpus()
    assert set(states(machine)) > above_gpus()
    assert list(bridge_power.drift(machine)) == []


def test_on_a_virtual_machine_nothing_is_written_or_compared(machine: Root) -> None:
    (machine.top / "proc/cpuinfo").write_text("flags : fpu hypervisor\n")
    assert list(bridge_power.apply(machine)) == []
    assert list(bridge_power.drift(machine)) == []
    assert set(states(machine).values()) == {"auto"}


def test_bridges_without_the_file_are_a_notice_and_nothing_is_claimed(machine: Root) -> None:
    for path in (machine.top / PCI).glob("*/power/control"):
        path.unlink()
    assert list(bridge_power.apply(machine)) == []
    (found,) = bridge_power.drift(machine)
    assert (found.kind, found.severity) == ("bridge-power-missing", NOTICE)
    assert states(machine) == {}


def test_what_the_kernel_refuses_is_named(machine: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, text: str) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "write_text", refuse)
    failed = list(bridge_power.apply(machine))
    assert len(failed) == len(above_gpus())
    assert all("Operation not permitted" in line for line in failed)
