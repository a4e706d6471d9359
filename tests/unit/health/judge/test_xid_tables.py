# SPDX-License-Identifier: GPL-3.0-or-later
"""Each row of the tables of kernel events, against a second list of rows, and what a line of its code means for a node."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables import xid_tables
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.xid_rows import (
    FOLLOWED,
    RECOVERY_ACTION,
    RegisterRow,
    Repeat,
    XidRow,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.xid_tables import (
    TableError,
    line_rows,
    sxid_row,
    sxids,
    xids,
)
from tests.kit.kernel_log import classes, event, findings

HERE = Path(__file__).parent
ROWS = [line.split() for line in (HERE / "xid_rows.txt").read_text(encoding="utf-8").splitlines()]
SXID_ROWS = [line.split(None, 4) for line in (HERE / "sxid_rows.txt").read_text(encoding="utf-8").splitlines()]
# check -> class, kind, and a line of its shape; lines of drivers' sources where no published log has the line.
LINES = {
    "gpu-init-failed": ("reset", "nvrm", "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2168)"),
    "driver-client-mismatch": (
        "note",
        "nvrm",
        "NVRM: API mismatch: the client 'nvidia-smi' (pid 7)\nNVRM: has the version 1",
    ),
    "hca-health": (
        "reset",
        "mlx5",
        "mlx5_core 0000:3b:00.0: poll_health:852:(pid 0): device's health compromised - reached miss count",
    ),
    "hca-command-timeout": (
        "reset",
        "mlx5",
        "mlx5_core 0000:3b:00.0: wait_func:964:(pid 112): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource",
    ),
    "hca-hardware-error": (
        "reset",
        "mlx5",
        "mlx5_core 0000:3b:00.0: print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error",
    ),
    "hca-firmware-error": (
        "reset",
        "mlx5",
        "mlx5_core 0000:3b:00.0: print_health_info:442:(pid 912): synd 0x1: firmware internal error",
    ),
    "hca-slot-power": (
        "note",
        "mlx5",
        "mlx5_core 0000:3b:00.0: mlx5_pcie_event:299:(pid 1): Detected insufficient power on the PCIe slot (27W).",
    ),
    "hca-module-temperature": (
        "degraded",
        "mlx5",
        "mlx5_core 0000:3b:00.0: Port module event[error]: module 0, Cable error, High Temperature",
    ),
    "pcie-bandwidth-limited": (
        "note",
        "pcie",
        "pci 0000:3b:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:01.0",
    ),
    "pcie-error-fatal": (
        "degraded",
        "pcie",
        "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer",
    ),
    "pcie-error-nonfatal": (
        "note",
        "pcie",
        "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
    ),
    "task-hung": ("note", "task", "INFO: task nvidia-smi:2024380 blocked for more than 120 seconds."),
    "machine-check": ("note", "mce", "mce: [Hardware Error]: Machine check events logged"),
}
DEVICE = "0000:3b:00.0"


def described(row: XidRow) -> list[str]:
    """Return a row as the words of xid_rows.txt."""
    words = [str(row.code), row.name, row.bucket or "-", row.health_class, row.rule]
    words += ["link"] if row.is_link else []
    if row.followed:
        words.append(f"followed:{'+'.join(map(str, row.followed))}/{row.followed_seconds:g}s")
    words += [repeat(row.repeat)] if row.repeat else []
    return words + ([] if row.verified else ["unverified"])


def repeat(one: Repeat) -> str:
    return f"{one.check}:{one.count}/{one.hours:g}h/{'+'.join(one.same) or '-'}:{one.health_class}"


@pytest.mark.parametrize("words", ROWS, ids=lambda words: f"{words[0]}-{words[1]}")
def test_row_of_xid(words: list[str]) -> None:
    row = xids().row(int(words[0]))
    assert row.known
    assert described(row) == words
    assert re.fullmatch(r"[A-Z].*\.", row.action)
    assert row.source


@pytest.mark.parametrize("words", ROWS, ids=lambda words: words[0])
def test_class_of_a_line_with_the_code(words: list[str]) -> None:
    code, expected, rule = int(words[0]), words[3], words[4]
    text = f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=7, name=python3, UNIT Fatal XC0 i0 Link 01 (0x1 0x2)"
    (found,) = findings([event(text)])
    assert (found.kind, found.device, found.sources) == (f"xid-{code}", DEVICE, ("kernel-log",))
    assert found.health_class == expected
    assert found.unread == (rule == RECOVERY_ACTION)
    assert found.remedy


def test_rows_of_xids_are_all_listed() -> None:
    assert sorted(xids().rows) == [int(words[0]) for words in ROWS]
    assert len(ROWS) == 176


@pytest.mark.parametrize("words", SXID_ROWS, ids=lambda words: words[0])
def test_row_of_sxid(words: list[str]) -> None:
    code, kind, fatal, nonfatal, name = words
    row = sxid_row(int(code))
    assert (row.kind, row.fatal_class, row.nonfatal_class, row.name) == (kind, fatal, nonfatal, name)
    assert row.known
    assert row.source
    assert re.fullmatch(r"[A-Z].*\.", row.fatal_action)
    line = f"nvidia-nvswitch0: SXid (PCI:0000:05:00.0): {code}, %s, Link 03 {name}"
    assert classes([event(line % "Fatal")]) == {f"sxid-{code}": fatal}
    assert classes([event(line % "Non-fatal")]) == {f"sxid-{code}": nonfatal}


def test_rows_of_sxids_are_all_listed() -> None:
    assert sorted(sxids()) == sorted(int(words[0]) for words in SXID_ROWS)
    kinds = [row.kind for row in sxids().values()]
    # The sheet's figures of the Fabric Manager guide.
    assert {kind: kinds.count(kind) for kind in kinds} == {"non-fatal": 26, "potential": 46, "always": 21}


@pytest.mark.parametrize("check", LINES)
def test_row_of_line(check: str) -> None:
    health_class, kind, line = LINES[check]
    (row,) = [one for one in line_rows() if one.check == check]
    assert (row.health_class, row.kind) == (health_class, kind)
    assert row.source
    found = event(line)
    assert (found.kind, found.details["line"]) == (kind, check)
    assert found.device == (DEVICE if DEVICE in line else "")
    assert classes([found]) == {check: health_class}


def test_rows_of_lines_are_all_listed() -> None:
    assert [one.check for one in line_rows()] == list(LINES)


ACTIONS = {0: "note", 1: "reset", 2: "reset", 3: "degraded", 4: "reset", 5: "reset", 6: "reset", 7: "reset"}


@pytest.mark.parametrize("number", ACTIONS)
def test_row_of_recovery_action(number: int) -> None:
    action = xids().actions[number]
    line = (
        f"NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x{number:x} ({action.name})"
    )
    (found,) = findings([event(line)])
    assert (found.health_class, found.remedy, found.unread) == (ACTIONS[number], action.action, False)


def test_rows_of_recovery_actions_are_all_listed() -> None:
    assert list(xids().actions) == list(ACTIONS)


# kind -> class, class beside another Xid, bits by register, repeat.
REGISTERS = {
    "ignored": ("note", "", {0: {0, 23, 30}, 4: {20, 23, 26, 29}}, ""),
    "secondary": ("degraded", "note", {0: {1, 20}, 3: {16, 17}}, ""),
    "signal": ("degraded", "note", {0: {21, 22}}, ""),
    "fabric": ("reset", "", {3: {18}}, ""),
    "repeating": ("reset", "", {0: {27, 29}, 2: {13, 16, 17, 18, 19}}, ""),
    "mechanics": ("reset", "", {0: {8, 9, 12, 16, 17, 24, 28}}, "xid-74-mechanics-repeated:2/24h/link:rma"),
    "parity": (
        "reset",
        "",
        {0: {4, 5}, 2: {0, 1, 2, 6}, 4: {18, 19, 21, 22, 24, 25, 27, 28}},
        "xid-74-parity-repeated:3/24h/link:rma",
    ),
}


@pytest.mark.parametrize("row", xids().registers, ids=lambda row: row.kind)
def test_row_of_registers(row: RegisterRow) -> None:
    bits = {register: {bit for one, bit in row.bits if one == register} for register, _bit in row.bits}
    assert REGISTERS[row.kind] == (row.health_class, row.accompanied, bits, repeat(row.repeat) if row.repeat else "")
    for register, bit in row.bits:
        values = ", ".join(f"{1 << bit if number == register else 0:#x}" for number in range(7))
        line = f"NVRM: Xid (PCI:0000:3b:00): 74, pid=7, name=a, NVLink: fatal error detected on link 14({values})"
        assert classes([event(line)]) == {"xid-74": row.health_class}


def test_rows_of_registers_are_all_listed() -> None:
    assert [row.kind for row in xids().registers] == list(REGISTERS)


def test_rule_of_jobs() -> None:
    rule = xids().jobs
    found = (rule.check, rule.bucket, rule.jobs, rule.hours, rule.health_class)
    assert found == ("xid-jobs", "RESTART_APP", 3, 24, "degraded")
    assert xids().apart_seconds == 180


def test_a_code_without_a_row_is_a_note() -> None:
    assert (xids().row(999).known, xids().row(999).health_class) == (False, "note")
    assert (sxid_row(999).known, sxid_row(999).fatal_class) == (False, "note")


@pytest.mark.parametrize(
    "change",
    [
        {"class": "broken"},
        {"rule": "guess"},
        {"unknown": 1},
        {"rule": FOLLOWED},
        {"escalate": {"check": "a", "count": 1, "hours": 1, "same": [], "class": "broken", "action": ""}},
        {"code": 14},
    ],
    ids=str,
)
def test_a_row_that_is_not_understood_is_an_error(
    change: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = json.loads((Path(xid_tables.__file__).parent / "xid.json").read_text(encoding="utf-8"))
    (row,) = [row for row in table["rows"] if row["code"] == 13]
    row.update(change)
    (tmp_path / "xid.json").write_text(json.dumps(table), encoding="utf-8")
    monkeypatch.setattr(xid_tables, "_HERE", tmp_path)
    with pytest.raises(TableError):
        xids.__wrapped__()


def test_a_kind_of_sxid_that_is_not_known_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = json.loads((Path(xid_tables.__file__).parent / "sxid.json").read_text(encoding="utf-8"))
    table["rows"][0]["kind"] = "perhaps"
    (tmp_path / "sxid.json").write_text(json.dumps(table), encoding="utf-8")
    monkeypatch.setattr(xid_tables, "_HERE", tmp_path)
    with pytest.raises(TableError):
        xid_tables.sxids.__wrapped__()


def test_a_table_without_a_key_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = json.loads((Path(xid_tables.__file__).parent / "xid.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(xid_tables, "_HERE", tmp_path)
    for key in ("rows", "jobs", "apart_seconds", "recovery_actions", "registers"):
        (tmp_path / "xid.json").write_text(json.dumps({**table, key: None}), encoding="utf-8")
        with pytest.raises(TableError):
            xids.__wrapped__()
