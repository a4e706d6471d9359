# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the site: who may own them, what they may print, and their deadline."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import all_probes, foreign_checks
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.all_probes import Probe
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_child import ProbeChildren
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_settings import ProbeSettings

from .machine_kit import Machine, values

OWNER = os.getuid()
LINE = '{"check": "site-raid", "status": "warn", "device": "md0", "text": "one disk is missing"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checks.d"
    made.mkdir(mode=0o755)
    return made


def check(folder: Path, name: str, text: str = "true", mode: int = 0o755) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


def run(machine: Machine, folder: Path, seconds: float = 20.0) -> list[foreign_checks.Reading]:
    settings = ProbeSettings(sysroot=str(machine.top), checks=str(folder))
    found, refused = all_probes.probes(settings, "", OWNER)
    due = [replace(one, seconds=seconds) for one in found]
    return [*refused, *all_probes.run_probes(ProbeChildren(machine.folder), due, machine.root)]


def test_a_check_that_warns(machine: Machine, folder: Path):
    check(folder, "raid", f"echo '{LINE}'")
    readings = run(machine, folder)
    assert values(readings, "foreign/site-raid") == {"md0": "warn"}
    (reading,) = [one for one in readings if one.quantity == "foreign/site-raid"]
    assert (reading.source, reading.problem) == ("raid", "one disk is missing")


def test_a_check_that_hangs(machine: Machine, folder: Path):
    check(folder, "slow", f"echo '{LINE}'; sleep 600")
    readings = run(machine, folder, 0.4)
    assert values(readings, "foreign/slow") == {"": None}
    assert values(readings, "foreign/site-raid") == {"md0": "warn"}


def test_what_does_not_run(folder: Path, tmp_path: Path):
    check(folder, "group", mode=0o775)
    check(folder, "others", mode=0o757)
    check(folder, "data", mode=0o644)
    check(folder, "Bad.sh")
    good = check(folder, "good")
    (folder / "link").symlink_to(good)
    (folder / "folder").mkdir()
    (folder / "dangling").symlink_to(tmp_path / "missing")
    found, refused = foreign_checks.executables(folder, OWNER)
    assert found == [good]
    assert sorted(one.quantity for one in refused) == [
        "foreign/checks-d", "foreign/dangling", "foreign/data", "foreign/folder", "foreign/group", "foreign/link", "foreign/others",
    ]  # fmt: skip
    assert {one.value for one in refused} == {None}


def test_another_owner(folder: Path):
    check(folder, "good")
    found, refused = foreign_checks.executables(folder, OWNER + 1)
    assert (found, [one.quantity for one in refused]) == ([], ["foreign/checks-d"])


def test_a_folder_that_others_can_write(folder: Path):
    check(folder, "good")
    folder.chmod(0o777)
    assert foreign_checks.executables(folder, OWNER)[0] == []


def test_no_folder(tmp_path: Path):
    assert foreign_checks.executables(tmp_path / "missing", OWNER) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "", "ok", "null", "[]", "{}", '{"check": "a"}', '{"status": "ok"}', '{"check": "a", "status": "OK"}',
        '{"check": "A b", "status": "ok"}', '{"check": "a", "status": "ok", "more": 1}', '{"check": "a", "status": 1}',
        '{"check": "a", "status": "ok", "device": 3}', "[" * 100_000, '{"check": "../../x", "status": "ok"}', "\xff\xfe",
    ],
)  # fmt: skip
def test_a_line_that_breaks_the_contract(text: str):
    readings = foreign_checks.parse("a", 0, text.encode("latin-1"))
    assert [(one.quantity, one.value) for one in readings] == [("foreign/a", None)]


def test_a_good_line_beside_a_bad_one_and_a_contradiction():
    bad = foreign_checks.parse("raid", 0, f"{LINE}\nnonsense\n".encode())
    assert {one.quantity: one.value for one in bad} == {"foreign/site-raid": "warn", "foreign/raid": None}
    two = foreign_checks.parse("raid", 0, f"{LINE}\n{LINE.replace('warn', 'ok')}\n".encode())
    assert [one.value for one in two] == [None]


def test_a_check_that_fails_is_unread_whatever_it_printed():
    readings = foreign_checks.parse("raid", 2, b'{"check": "raid", "status": "ok"}\n', "no such program")
    assert [(one.quantity, one.value, one.problem) for one in readings] == [
        ("foreign/raid", None, "ended with 2: no such program")
    ]


def test_the_agents_table_has_the_check(folder: Path):
    check(folder, "good")
    found, _refused = all_probes.probes(ProbeSettings(checks=str(folder)), "", OWNER)
    assert found == [Probe("foreign:good", (str(folder / "good"),), 30, source="good")]


def test_a_check_that_vanishes_is_unread(folder: Path, monkeypatch: pytest.MonkeyPatch):
    check(folder, "raid")
    monkeypatch.setattr(foreign_checks.os, "listdir", lambda _folder: ["gone", "raid"])
    run_, refused = foreign_checks.executables(folder, OWNER)
    assert [one.name for one in run_] == ["raid"]
    assert [(one.quantity, one.value) for one in refused] == [("foreign/gone", None)]
