# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounts: present, read-only, free, hung.

A mount that hangs in the kernel needs a frozen filesystem, which the virtual machine has. Here stat(1) is a program that stops itself with
SIGSTOP: the agent's side, deadline and reading, is the same.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import all_probes, mount_probe
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_child import ProbeChildren

from .machine_kit import Machine, values

ROW = "36 35 0:50 / {path} {options} shared:1 - {kind} server:/export rw,vers=4.2\n"


def table(machine: Machine, *rows: tuple[str, str, str]) -> None:
    text = "garbage\n" + "".join(ROW.format(path=path, options=options, kind=kind) for path, options, kind in rows)
    machine.write("proc/1/mountinfo", text)


def test_a_mount_of_this_machine(machine: Machine, tmp_path: Path):
    table(machine, ("/", "rw,relatime", "ext4"), (str(tmp_path), "rw", "nfs4"))
    for mount in ("/", str(tmp_path)):
        readings = all_probes.run_probes(
            ProbeChildren(tmp_path), [machine.probe(f"mount:{mount}", mounts=[mount])], machine.root
        )
        free = values(readings, "mount-free")[mount]
        assert isinstance(free, float)
        assert 0 < free <= 100
        assert {one.quantity: one.value for one in readings if one.quantity != "mount-free"} == {
            "mount-present": 1, "mount-hung": 0, "mount-read-only": 0,
        }  # fmt: skip


def test_without_a_table_of_mounts_a_mount_is_not_called_absent(machine: Machine, tmp_path: Path):
    for one in ("1", "self"):
        (machine.top / f"proc/{one}/mountinfo").unlink(missing_ok=True)
    children = ProbeChildren(tmp_path)
    assert all_probes.begin(children, [machine.probe("mount:/", mounts=["/"])], machine.root) == []
    assert children.running == ["mount:/"]
    children.stop()


def test_a_mount_that_hangs_stops_nothing_else(machine: Machine, tmp_path: Path):
    table(machine, ("/slow", "rw", "nfs4"), ("/", "rw", "ext4"))
    mounts = ["/slow", "/"]
    stuck = replace(machine.probe("mount:/slow", mounts=mounts), argv=("sh", "-c", "kill -STOP $$"), seconds=0.4)
    children, begun = ProbeChildren(tmp_path), time.monotonic()
    readings = all_probes.run_probes(children, [stuck, machine.probe("mount:/", mounts=mounts)], machine.root)
    assert time.monotonic() - begun < 5
    assert values(readings, "mount-hung") == {"/slow": 1, "/": 0}
    assert values(readings, "mount-present") == {"/slow": None, "/": 1}


def test_a_mount_whose_child_does_not_die_counts_up(machine: Machine, tmp_path: Path):
    table(machine, ("/slow", "rw", "nfs4"))
    stuck = replace(machine.probe("mount:/slow", mounts=["/slow"]), argv=("sleep", "600"), seconds=0.2)
    children = ProbeChildren(tmp_path, kill=lambda pid: None)
    counts = [values(all_probes.run_probes(children, [stuck], machine.root), "mount-hung") for _cycle in range(3)]
    assert counts == [{"/slow": 1}, {"/slow": 2}, {"/slow": 3}]
    for one in children.leftovers.values():
        os.killpg(one.pid, signal.SIGKILL)


def test_an_absent_mount_is_not_queried(machine: Machine, tmp_path: Path):
    table(machine, ("/", "rw", "ext4"))
    probe = replace(machine.probe("mount:/data", mounts=["/data"]), argv=("touch", str(tmp_path / "ran")))
    readings = all_probes.run_probes(ProbeChildren(tmp_path), [probe], machine.root)
    assert values(readings, "mount-present") == {"/data": 0}
    assert not (tmp_path / "ran").exists()


def test_without_a_table_the_mount_is_unread(machine: Machine):
    assert mount_probe.is_mounted(machine.root, "/") is None


@pytest.mark.parametrize(("options", "read_only"), [("rw", 0), ("ro", 1)])
def test_the_agents_own_table_counts_options_of_the_filesystem_only(machine: Machine, options: str, read_only: int):
    row = ROW.format(path="/a", options="ro", kind="nfs4").replace("rw,vers", f"{options},vers")
    machine.write("proc/self/mountinfo", row)
    assert values(mount_probe.answered(machine.root, "/a", 0, b"10 5\n"), "mount-read-only") == {"/a": read_only}


@pytest.mark.parametrize(
    ("rows", "present", "read_only"),
    [
        ([("/a\\040b", "rw", "nfs4")], 1, 0),
        ([("/a\\040b", "ro,relatime", "nfs4")], 1, 1),
        ([("/a\\040b", "rw", "autofs")], None, None),
        ([("/a\\040b", "rw", "autofs"), ("/a\\040b", "rw", "nfs4")], 1, 0),
        ([("/a", "rw", "nfs4")], 0, None),
        ([("/a\\040b", "rw", "nfs4"), ("/a\\040b", "ro", "nfs4")], 1, 1),
        ([("/a\\040b", "ro", "nfs4"), ("/a\\040b", "rw", "nfs4")], 1, 0),
    ],
)
def test_rows_of_the_table(machine: Machine, rows: list[tuple[str, str, str]], present: object, read_only: object):
    table(machine, *rows)
    readings = mount_probe.answered(machine.root, "/a b", 0, b"1000 250\n")
    assert values(readings, "mount-present") == {"/a b": present}
    assert values(readings, "mount-read-only") == {"/a b": read_only}


@pytest.mark.parametrize(
    ("code", "output", "free"),
    [(0, b"1000 250\n", 25.0), (0, b"10 20\n", 100.0), (0, b"0 0\n", None), (1, b"", None), (0, b"-5 2", None)],
)
def test_answers_of_stat(machine: Machine, code: int, output: bytes, free: object):
    table(machine, ("/a", "rw", "nfs4"))
    assert values(mount_probe.answered(machine.root, "/a", code, output), "mount-free") == {"/a": free}


def test_a_probe_that_runs_is_not_called_hung(machine: Machine, tmp_path: Path):
    table(machine, ("/slow", "rw", "nfs4"))
    slow = replace(machine.probe("mount:/slow", mounts=["/slow"]), argv=("sleep", "600"))
    children = ProbeChildren(tmp_path)
    assert all_probes.begin(children, [slow], machine.root) == []
    assert all_probes.begin(children, [slow], machine.root) == []
    children.stop()
