"""The register of lossy retransmission: off on lossless rails, by a tool that prints as NVIDIA's manual shows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import apply_rdma, rdma_drift
from ansible_collections.bedplate.cluster.plugins.plugin_utils.rdma import retransmission_table as table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.rdma.rdma_part import RdmaError

from .machine import PCI, Machine, deployed, found

RAILS = (PCI["mlx5_0"], PCI["mlx5_1"])
# NVIDIA, Adaptive Retransmission: Parameters Control, sample usage: the fields' names and the form of a line.
FIRMWARE = {
    "roce_adp_retrans_field_select": 1, "roce_tx_window_field_select": 1, "roce_slow_restart_field_select": 1,
    "adaptive_routing_forced_en_field_select": 0, "roce_adp_retrans_en": 1, "roce_tx_window_en": 0, "roce_slow_restart_en": 1,
    "roce_slow_restart_idle_en": 0, "adaptive_routing_forced_en": 0, "adp_retx_base_timeout_min": 0xFA0,
}  # fmt: skip


class Node(Machine):
    """A node with two rails of mlx5 and the register of each; `refuses` are the addresses that take no value."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.registers = {pci: dict(FIRMWARE) for pci in PCI.values()}
        self.refuses: set[str] = set()
        self.broken = False

    def run(self, command: Sequence[str]) -> Outcome:
        if command[0] not in ("mlxreg", "mstreg"):
            return super().run(command)
        self.calls.append(" ".join(command))
        assert command[1] == "-d"
        assert list(command[3:5]) == ["--reg_name", "ROCE_ACCL"]
        register = self.registers[command[2]]
        if self.broken:
            return Outcome(1, "", "-E- Failed to open device")
        if command[5] == "--set":
            # Without --yes the tool waits for an answer.
            assert command[7] == "--yes"
            for pair in command[6].split(","):
                name, value = pair.split("=")
                if command[2] not in self.refuses:
                    register[name] = int(value, 16)
            return Outcome(0, "", "")
        assert command[5] == "--get"
        lines = "\n".join(f"{name:<45} | 0x{value:08x}" for name, value in register.items())
        head = "Sending access register...\n\nField Name | Data\n" + "=" * 60
        return Outcome(0, f"{head}\n{lines}\n{'=' * 60}\n", "")


@pytest.fixture
def told(tmp_path: Path) -> dict[str, Any]:
    return deployed(tmp_path, retransmission="auto")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    known = found(tmp_path / "node")
    made = Node(tmp_path / "node")
    for name in ("addresses", "mtu", "up", "trust", "pfc", "mapping"):
        setattr(made, name, getattr(known, name))
    made.put("usr/bin/mstreg", "")
    return made


def applied(node: Node, told: dict[str, Any]) -> list[str]:
    return list(apply_rdma.apply(node.root, told["expected"]["settings"], node.run))


def compared(node: Node, told: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return kind, severity and what was found, of the findings about the register."""
    rows = rdma_drift.drift(node.root, told["expected"], node.run)
    return [(row.kind, row.severity, row.found) for row in rows if row.kind.startswith("retransmission")]


def test_the_table_has_a_source_and_says_that_no_nic_was_seen() -> None:
    found = table.table()
    assert found["from"]
    assert found["seen"] is False
    assert set(table.settings()) == {"register", "fields", "unless"}
    page = (Path(__file__).parents[3] / "docs/rdma.md").read_text()
    assert "rdma_retransmission" in page
    assert "was seen on no NIC" in " ".join(page.split())


def test_fields_that_are_on_are_turned_off_on_rails_and_a_second_run_only_reads(
    node: Node, told: dict[str, Any]
) -> None:
    on = "on: roce_adp_retrans_en, roce_slow_restart_en"
    assert compared(node, told) == [("retransmission", ERROR, on)] * 2
    assert applied(node, told) == []
    assert all(node.registers[pci][name] == 0 for pci in RAILS for name in table.settings()["fields"])
    # A storage NIC is no rail.
    assert node.registers[PCI["mlx5_2"]] == FIRMWARE
    assert compared(node, told) == []
    node.calls.clear()
    assert applied(node, told) == []
    assert not [call for call in node.calls if "--set" in call]


def test_mlxreg_of_mft_comes_before_mstreg(node: Node, told: dict[str, Any]) -> None:
    node.put("usr/bin/mlxreg", "")
    applied(node, told)
    assert {call.split()[0] for call in node.calls if "ROCE_ACCL" in call} == {"mlxreg"}


@pytest.mark.parametrize("job", ["slurmstepd", "conmon"])
def test_while_a_job_runs_nothing_is_written(node: Node, told: dict[str, Any], job: str) -> None:
    node.put("proc/42/comm", f"{job}\n")
    node.put("proc/42/cmdline", f"{job}\0")
    assert applied(node, told) == []
    assert node.registers[RAILS[0]] == FIRMWARE
    assert [row[:2] for row in compared(node, told)] == [("retransmission", NOTICE)] * 2


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("usr/bin/mstreg", None, "neither mlxreg nor mstreg"),
        ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n", "locked down (integrity)"),
        ("proc/cpuinfo", "flags : fpu hypervisor\n", "virtual machine"),
    ],
)
def test_where_the_register_cannot_be_written_one_notice_says_why(
    node: Node, told: dict[str, Any], path: str, text: str | None, reason: str
) -> None:
    if text is None:
        (node.top / path).unlink()
    else:
        node.put(path, text)
    assert applied(node, told) == []
    assert node.registers[RAILS[0]] == FIRMWARE
    ((kind, severity, found),) = compared(node, told)
    assert (kind, severity) == ("retransmission-unread", NOTICE)
    assert reason in found


def test_spectrum_x_keeps_its_own_values(node: Node, told: dict[str, Any]) -> None:
    node.registers[RAILS[0]]["adaptive_routing_forced_en"] = 1
    assert applied(node, told) == []
    assert node.registers[RAILS[0]]["roce_adp_retrans_en"] == 1
    assert node.registers[RAILS[1]]["roce_adp_retrans_en"] == 0
    ((kind, severity, found),) = compared(node, told)
    assert (kind, severity) == ("retransmission-unread", NOTICE)
    assert "adaptive_routing_forced_en" in found


def test_a_field_that_the_nic_does_not_let_anyone_set_is_left(node: Node, told: dict[str, Any]) -> None:
    for pci in RAILS:
        node.registers[pci]["roce_slow_restart_field_select"] = 0
    assert applied(node, told) == []
    assert node.registers[RAILS[0]]["roce_slow_restart_en"] == 1
    assert compared(node, told) == []


def test_a_nic_that_does_not_take_it_and_a_tool_that_fails_are_named(node: Node, told: dict[str, Any]) -> None:
    node.refuses = {RAILS[1]}
    assert applied(node, told) == ["mlx5_1: roce_adp_retrans_en, roce_slow_restart_en stays on"]
    node.broken = True
    failed = applied(node, told)
    assert [line.partition(":")[0] for line in failed] == ["mlx5_0", "mlx5_1"]
    assert all("Failed to open device" in line for line in failed)
    assert [row[:2] for row in compared(node, told)] == [("retransmission-unread", NOTICE)] * 2


@pytest.mark.parametrize("choices", [{"retransmission": "keep"}, {"retransmission": "auto", "lossless": False}])
def test_it_is_left_alone_on_request_and_without_lossless_priorities(
    tmp_path: Path, node: Node, choices: dict[str, Any]
) -> None:
    told = deployed(tmp_path, **choices)
    assert applied(node, told) == []
    assert compared(node, told) == []
    assert not [call for call in node.calls if "ROCE_ACCL" in call]


def test_another_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RdmaError, match="rdma_retransmission: 'off'; allowed: auto, keep"):
        deployed(tmp_path, retransmission="off")
