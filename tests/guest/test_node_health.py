# SPDX-License-Identifier: GPL-3.0-or-later
"""The health agent as a unit of a machine with its own kernel: its log, tasks that cannot be killed, OOM, a full disk, a clock that jumps.

The tests are steps: each one finds the guest as the one before it left it. There is no Slurm in the guest, so reports wait.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import verdict_line
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import Verdict
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from lab.guest import commands
from lab.guest.machine import Guest
from lab.shell import say

pytestmark = [pytest.mark.guest, pytest.mark.step]

INTERVAL = 10
SETTINGS = {"node": "guest", "interval": INTERVAL, "profile": {"mounts": ["/mnt/disk"], "quiet_after_boot": 0}}
VALUES = {"settings": SETTINGS, "kernel_log": "/dev/kmsg", "textfiles": "", "strict": False}
ROLE = Path(__file__).parents[2] / "roles/node_health"
GPU = "0000:3b:00.0"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
CHECK = "/etc/bedplate/health/checks.d/writes"
# Emulated, a tick with its children takes seconds.
SLOW = 90


def archive() -> str:
    """Return the files of the role's part as a tar in base64."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as packed:
        for one in render_part("node_health", "node_health", VALUES)["files"]:
            member = tarfile.TarInfo(one["path"].lstrip("/"))
            member.mode = int(one.get("mode", "0644"), 8)
            if one.get("state") == "directory":
                member.type = tarfile.DIRTYPE
                packed.addfile(member)
                continue
            content = one.get("content") or (ROLE / "files" / Path(one.get("src", "")).name).read_text()
            data = content.encode()
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    return base64.b64encode(found.getvalue()).decode()


def disk() -> str:
    """Return an empty ext4, which the guest has no program to make, compressed and in base64."""
    with tempfile.NamedTemporaryFile() as file:
        os.truncate(file.name, 16 << 20)
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", file.name], check=True)
        return base64.b64encode(gzip.compress(Path(file.name).read_bytes())).decode()


class Machine:
    """The guest with the agent."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    @property
    def verdict(self) -> Verdict:
        return verdict_line.parse(self.guest.read("/run/bedplate/health/verdict"))

    @property
    def details(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.guest.read("/run/bedplate/health/verdict.json"))
        return data

    def until(self, holds: Callable[[], object], seconds: float = SLOW) -> float:
        """Wait until a condition holds; return the seconds."""
        begin = time.monotonic()
        while True:
            try:
                if holds():
                    return time.monotonic() - begin
            except (OSError, ValueError, RuntimeError, AssertionError):
                pass
            assert time.monotonic() - begin < seconds, self.guest.ssh(
                "journalctl -u bedplate-health -n 30 --no-pager"
            ).stdout
            time.sleep(1)

    def ticks_on(self) -> None:
        """Wait for a verdict of a later tick."""
        before = self.verdict.written
        self.until(lambda: self.verdict.written > before)

    def write_log(self, text: str) -> None:
        self.guest.run(f"echo '<4>{text}' > /dev/kmsg")

    def bundles(self) -> list[str]:
        return self.guest.run("ls -d /var/lib/bedplate/health/evidence/*xid-79* 2>/dev/null || true").split()


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    commands.prepare()
    with Guest("health") as guest:
        guest.run(
            "base64 -d | gunzip > /root/disk && mkdir -p /mnt/disk && mount -o loop /root/disk /mnt/disk", stdin=disk()
        )
        # The unit writes nowhere else: the check of a test does.
        folder = "/etc/systemd/system/bedplate-health.service.d"
        guest.run(f"mkdir -p {folder} && cat > {folder}/test.conf", stdin="[Service]\nReadWritePaths=/mnt/disk\n")
        guest.run("sysctl -q kernel.printk_devkmsg=on && base64 -d | tar -xz -C /", stdin=archive())
        guest.run(
            "systemctl daemon-reload && systemctl enable --now bedplate-health.service bedplate-health-ready.service"
        )
        yield Machine(guest)


def test_the_unit_starts_and_a_well_machine_is_ok(machine: Machine) -> None:
    machine.until(lambda: machine.verdict.status == "ok", 3 * SLOW)
    assert (
        machine.guest.run("systemctl is-active bedplate-health.service bedplate-health-ready.service").split()
        == ["active"] * 2
    )
    assert machine.verdict.boot == machine.guest.boot_id()


def test_an_xid_in_the_kernels_log_is_a_verdict_and_evidence_once(machine: Machine) -> None:
    machine.write_log(XID)
    seconds = machine.until(lambda: machine.verdict.status == "fail")
    say("guest", f"verdict {seconds:.0f} s after the record")
    assert (machine.verdict.health_class, "xid-79" in machine.verdict.text) == ("reset", True)
    machine.until(lambda: len(machine.bundles()) == 1)
    machine.guest.run("systemctl restart bedplate-health.service")
    machine.until(lambda: machine.verdict.status == "fail")
    machine.ticks_on()
    assert len(machine.bundles()) == 1
    assert "fallen off the bus" in machine.guest.run("cat /var/lib/bedplate/health/evidence/*xid-79*/kernel.log")


def test_a_reset_ends_it(machine: Machine) -> None:
    machine.write_log(f"bedplate-health: reset of {GPU} done")
    machine.until(lambda: machine.verdict.status == "ok")


def test_a_check_that_cannot_be_killed_hangs_nothing_and_is_not_started_twice(machine: Machine) -> None:
    script = '#!/bin/sh\ntouch /mnt/disk/x || exit 1\necho \'{"check": "writes", "status": "ok"}\'\n'
    machine.guest.run(f"cat > {CHECK} && chmod 0755 {CHECK}", stdin=script)
    machine.guest.run("systemctl restart bedplate-health.service")
    machine.until(lambda: machine.guest.ssh("test -e /mnt/disk/x").returncode == 0, 3 * SLOW)
    machine.guest.run("fsfreeze -f /mnt/disk")
    machine.until(lambda: "D" in machine.guest.run("ps -C touch -o stat= || true"), 4 * SLOW)
    machine.ticks_on()
    machine.ticks_on()
    assert len(machine.guest.run("pgrep -x touch").split()) == 1
    begin = time.monotonic()
    machine.guest.run("systemctl restart bedplate-health.service")
    say("guest", f"restart beside an unkillable check: {time.monotonic() - begin:.0f} s")
    machine.ticks_on()
    machine.ticks_on()
    assert len(machine.guest.run("pgrep -x touch").split()) == 1
    machine.guest.run("fsfreeze -u /mnt/disk")
    machine.until(lambda: machine.guest.run("pgrep -x touch || true") == "")
    machine.guest.run(f"rm {CHECK}")


def test_a_check_that_takes_all_memory_ends_alone(machine: Machine) -> None:
    pid = machine.guest.run("systemctl show bedplate-health.service --property=MainPID")
    script = "#!/usr/bin/python3\nfound = []\nwhile True:\n    found.append(b'x' * (1 << 24))\n"
    machine.guest.run(f"cat > {CHECK} && chmod 0755 {CHECK}", stdin=script)
    events = "/sys/fs/cgroup/system.slice/bedplate-health.service/memory.events"
    machine.until(lambda: "oom_kill 0" not in machine.guest.run(f"grep '^oom_kill ' {events}"), 5 * SLOW)
    machine.guest.run(f"rm {CHECK}")
    machine.ticks_on()
    assert machine.guest.run("systemctl show bedplate-health.service --property=MainPID") == pid


def test_a_full_disk_stops_no_verdict(machine: Machine) -> None:
    state, unit = "/var/lib/bedplate/health", "bedplate-health.service"
    machine.guest.run(f"mount -t tmpfs -o size=64k tmpfs {state}; head -c 1M /dev/zero > {state}/full || true")
    machine.guest.run("systemctl restart bedplate-health.service")
    machine.until(lambda: machine.verdict.status in ("ok", "unknown"))
    machine.write_log(XID)
    machine.until(lambda: machine.verdict.status == "fail")
    machine.write_log(f"bedplate-health: reset of {GPU} done")
    machine.guest.run(f"systemctl stop {unit}; umount -l {state}; systemctl start {unit}")
    machine.until(lambda: machine.verdict.status == "ok")


def test_a_clock_that_jumps_changes_nothing(machine: Machine) -> None:
    for jump in ("+1 day", "-2 days", "+1 day"):
        machine.guest.run(f"date -s '{jump}'")
        machine.ticks_on()
        assert machine.verdict.status == "ok"


def test_ten_thousand_lines_hide_no_xid(machine: Machine) -> None:
    flood = (
        "import os, time\nhandle = os.open('/dev/kmsg', os.O_WRONLY)\nbegin = time.monotonic()\n"
        "for number in range(10000):\n    os.write(handle, b'<6>eth0: link is up, number %d\\n' % number)\n"
        f"os.write(handle, b'<4>{XID}\\n')\nprint(time.monotonic() - begin)\n"
    )
    seconds = machine.guest.run("python3 -", stdin=flood)
    say("guest", f"10,000 lines in {seconds} s")
    machine.until(lambda: "xid-79" in machine.verdict.text, 2 * SLOW)
    machine.write_log(f"bedplate-health: reset of {GPU} done")


def test_a_kill_at_any_moment_leaves_a_whole_verdict_and_little_memory(machine: Machine) -> None:
    for number in range(6):
        time.sleep(number)
        machine.guest.run("systemctl kill --signal=KILL bedplate-health.service")
        assert machine.verdict
        assert machine.details
    machine.until(lambda: machine.guest.ssh("systemctl is-active bedplate-health.service").stdout.strip() == "active")
    machine.ticks_on()
    pid = machine.guest.run("systemctl show bedplate-health.service --property=MainPID --value")
    resident = int(machine.guest.run(f"grep VmHWM /proc/{pid}/status").split()[1])
    say("guest", f"agent: {resident >> 10} MiB")
    assert resident < 64 << 10


def test_after_a_boot_the_old_verdict_does_not_count(machine: Machine) -> None:
    before = machine.verdict.boot
    machine.guest.reboot()
    machine.until(lambda: machine.verdict.boot not in (before, ""), 3 * SLOW)
    assert machine.guest.run("systemctl is-active bedplate-health-ready.service") == "active"
