# SPDX-License-Identifier: GPL-3.0-or-later
"""The health agent as a unit of a machine with its own kernel: its log, tasks that cannot be killed, OOM, a full disk, a clock that jumps.

The tests are steps: each one finds the guest as the one before it left it. There is no Slurm in the guest, so reports wait, and a unit of
the name slurmd.service copies the verdict that slurmd would find.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import verdict_line
from lab.guest import commands
from lab.guest.machine import Guest
from lab.shell import say
from tests.guest.health_node import CHECK, HANGS, READY, RUN, SLOW, STATE, UNIT, HealthNode

pytestmark = [pytest.mark.guest, pytest.mark.step]

GPU = "0000:3b:00.0"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
FLOODED = ("0000:5e:00", "0000:86:00")
LINES, FLOOD_SECONDS, KILL_SECONDS = 60000, 6, 60
LARGEST = 64 << 10
"""KiB that a process of the agent may have."""
_LIBRARY = "PYTHONPATH=/usr/local/lib/bedplate/health_agent"


@pytest.fixture(scope="module")
def node() -> Iterator[HealthNode]:
    """Return the guest before the role ran."""
    commands.prepare()
    with Guest("health") as guest:
        one = HealthNode(guest)
        one.prepare()
        yield one


def test_the_role_installs_an_agent_that_calls_a_well_machine_ok(node: HealthNode) -> None:
    run = node.play("apply")
    assert run.code == 0, run.told
    node.until_status("ok", 3 * SLOW)
    assert (node.shown("ActiveState"), node.verdict.boot) == ("active", node.guest.boot_id())


def test_an_xid_in_the_kernels_log_is_a_verdict_and_evidence_once(node: HealthNode) -> None:
    node.write_log(XID)
    seconds = node.until_status("fail")
    say("guest", f"verdict {seconds:.0f} s after the record")
    assert (node.verdict.health_class, "xid-79" in node.verdict.text) == ("reset", True)
    node.until(lambda: len(node.bundles()) == 1)
    for command in ("restart", "kill --signal=KILL"):
        pid = node.shown("MainPID")
        node.guest.run(f"systemctl {command} {UNIT}")
        node.until(lambda pid=pid: node.shown("MainPID") not in ("0", pid))  # type: ignore[misc]
        node.ticks_on(2)
        assert (node.verdict.status, len(node.bundles())) == ("fail", 1)
    assert "fallen off the bus" in node.guest.run(f"cat {STATE}/evidence/*xid-79*/kernel.log")


def test_a_reset_ends_it(node: HealthNode) -> None:
    node.write_log(f"bedplate-health: reset of {GPU} done")
    node.until_status("ok")


def test_a_file_server_that_hangs_is_a_finding_and_its_probe_is_not_started_twice(node: HealthNode) -> None:
    node.guest.run(f"touch {HANGS}")
    seconds = node.until(lambda: "mount-hung@/mnt/share" in node.verdict.text, 3 * SLOW)
    say("guest", f"mount-hung after {seconds:.0f} s")
    assert (node.verdict.status, node.verdict.health_class) == ("warn", "transient")
    node.ticks_on(2)
    # SIGKILL did not end it.
    assert (node.states("stat"), node.leftovers()) == (["D"], ["mount:/mnt/share"])


def test_its_probe_is_found_after_a_restart_and_the_mount_recovers(node: HealthNode) -> None:
    begin = time.monotonic()
    node.guest.run(f"systemctl restart {UNIT}")
    say("guest", f"restart beside a probe that cannot be killed: {time.monotonic() - begin:.0f} s")
    node.ticks_on(2)
    assert (node.states("stat"), node.leftovers()) == (["D"], ["mount:/mnt/share"])
    node.until(lambda: "mount-hung@/mnt/share" in node.verdict.text)
    node.guest.run(f"rm {HANGS}")
    node.until_status("ok")
    node.until(lambda: (node.states("stat"), node.leftovers()) == ([], []))


def test_a_check_that_cannot_be_killed_hangs_nothing_and_is_not_started_twice(node: HealthNode) -> None:
    node.guest.run("fsfreeze -f /mnt/disk")
    node.install_check('#!/bin/sh\ntouch /mnt/disk/x || exit 1\necho \'{"check": "writes", "status": "ok"}\'\n')
    node.until(lambda: node.states("touch") == ["D"], 2 * SLOW)
    node.until(lambda: node.verdict.status == "unknown", 2 * SLOW)
    node.guest.run(f"systemctl restart {UNIT}")
    node.ticks_on(2)
    assert (node.states("touch"), node.verdict.status) == (["D"], "unknown")
    node.guest.run("fsfreeze -u /mnt/disk")
    node.until(lambda: node.guest.ssh("test -e /mnt/disk/x").returncode == 0 and node.states("touch") == [])
    node.until_status("ok")
    node.guest.run(f"rm {CHECK}")


def test_a_check_that_takes_all_memory_ends_alone(node: HealthNode) -> None:
    pid = node.shown("MainPID")
    node.install_check("#!/usr/bin/python3\nfound = []\nwhile True:\n    found.append(b'x' * (1 << 24))\n")
    events = f"/sys/fs/cgroup/system.slice/{UNIT}/memory.events"
    node.until(lambda: "oom_kill 0" not in node.guest.run(f"grep '^oom_kill ' {events}"), 5 * SLOW)
    node.guest.run(f"rm {CHECK}")
    node.ticks_on()
    assert node.shown("MainPID") == pid


def test_an_agent_without_memory_leaves_its_verdict_and_returns(node: HealthNode) -> None:
    before, restarts = node.verdict, int(node.shown("NRestarts"))
    # Less than Python itself needs.
    node.guest.run(f"systemctl set-property --runtime {UNIT} MemoryMax=8M")
    node.until(lambda: int(node.shown("NRestarts")) >= restarts + 2)
    assert (node.verdict.status, node.verdict.boot, bool(node.details)) == ("ok", before.boot, True)
    node.guest.run(f"systemctl set-property --runtime {UNIT} MemoryMax=192M")
    node.ticks_on()
    node.until_status("ok")


def test_a_full_disk_stops_no_verdict(node: HealthNode) -> None:
    node.guest.run(f"mount -t tmpfs -o size=64k tmpfs {STATE}; head -c 1M /dev/zero > {STATE}/full || true")
    node.guest.run(f"systemctl restart {UNIT}")
    node.until(lambda: "state-unsaved" in node.details["problems"])
    node.until_status("ok")
    node.write_log(XID)
    node.until_status("fail")
    assert "No space left on device" in node.details["problems"]["evidence"]
    node.write_log(f"bedplate-health: reset of {GPU} done")
    node.until_status("ok")
    node.guest.run(f"systemctl stop {UNIT}; umount -l {STATE}; systemctl start {UNIT}")
    node.until(lambda: node.verdict.status == "ok" and "state-unsaved" not in node.details["problems"])


def test_a_clock_that_jumps_changes_nothing(node: HealthNode) -> None:
    kept = node.bundles()
    for jump in ("+1 day", "-2 days", "+1 day"):
        node.guest.run(f"date -s '{jump}'")
        node.ticks_on()
        assert (node.verdict.status, node.bundles()) == ("ok", kept)


def test_ten_thousand_lines_a_second_hide_no_xid(node: HealthNode) -> None:
    # The console of the guest is slower than that.
    command = f"dmesg -n 1; python3 /root/flood.py {LINES} {FLOOD_SECONDS} {' '.join(FLOODED)}"
    found = json.loads(node.guest.run(command))
    say("guest", f"{LINES} lines in {found['seconds']:.1f} s; verdicts at {found['verdicts']}")
    node.until(lambda: f"xid-79@{FLOODED[1]}.0" in node.verdict.text)
    # The kernel's buffer is smaller than the flood: an Xid is found, or its loss is.
    text = node.verdict.text
    assert f"xid-79@{FLOODED[0]}.0" in text or "kernel-log-gap" in text, text
    node.ticks_on()


def test_a_kill_at_any_moment_leaves_whole_files(node: HealthNode) -> None:
    folder = f"/run/systemd/system/{UNIT}.d"
    node.guest.run(f"mkdir -p {folder} && cat > {folder}/kill.conf", stdin="[Service]\nRestartSec=100ms\n")
    node.guest.run("systemctl daemon-reload")
    found = json.loads(node.guest.run(f"{_LIBRARY} python3 /root/kill_often.py {KILL_SECONDS}", timeout=300))
    say("guest", f"{found['kills']} kills, {found['writing']} during a write, {found['reads']} reads meanwhile")
    assert (found["problems"], found["kills"] >= 6, found["writing"] >= 2) == ([], True, True), found
    node.guest.run(f"rm {folder}/kill.conf; systemctl daemon-reload")
    node.until(lambda: node.shown("ActiveState") == "active")
    node.ticks_on()
    # What the killed ones left half written is gone.
    assert node.guest.run(f"find {RUN} {STATE} -name '*.tmp' -o -name '*.part'") == ""


def test_the_agent_used_little_memory_through_all_of_it(node: HealthNode) -> None:
    most, agents = map(int, node.guest.read("/run/peak").split())
    say("guest", f"agent: {most >> 10} MiB at most, of {agents} processes")
    assert (0 < most < LARGEST, agents >= 8) == (True, True)


def test_a_boot_starts_anew_and_slurmd_waits_for_its_verdict(node: HealthNode) -> None:
    node.write_log(XID)
    node.until(lambda: f"xid-79@{GPU}" in node.verdict.text)
    before, kept = node.verdict.boot, node.bundles()
    say("guest", f"rebooted in {node.guest.reboot():.0f} s")
    assert node.guest.failed_units() == []
    boot = node.guest.boot_id()
    assert (verdict_line.parse(node.guest.read("/run/at-slurmd")).boot, boot != before) == (boot, True)
    ready, slurmd = (
        int(node.shown(name, unit))
        for unit, name in (
            (READY, "ActiveEnterTimestampMonotonic"),
            ("slurmd.service", "ExecMainStartTimestampMonotonic"),
        )
    )
    assert 0 < ready <= slurmd
    # Xids and the gap were of the boot before.
    node.until_status("ok")
    assert node.bundles() == kept
    node.write_log(XID)
    node.until(lambda: node.verdict.status == "fail" and len(node.bundles()) == len(kept) + 1)
    node.write_log(f"bedplate-health: reset of {GPU} done")
    node.until_status("ok")


def test_a_second_run_changes_nothing_and_verify_is_content(node: HealthNode) -> None:
    run = node.play("apply")
    assert (run.code, run.counts["changed"]) == (0, 0), run.told
    run = node.play("verify")
    assert run.code == 0, run.told
