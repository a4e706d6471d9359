# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest as a node whose health is judged: two mounts, a stand-in for slurmd, and the role by its playbook."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import verdict_line
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import Verdict
from lab.guest.machine import Guest, environment
from lab.paths import ROOT
from tests.guest.tuned_node import Run

HERE = Path(__file__).parent / "node_health"
UNIT, READY = "bedplate-health.service", "bedplate-health-ready.service"
RUN, STATE = "/run/bedplate/health", "/var/lib/bedplate/health"
CHECK = "/etc/bedplate/health/checks.d/writes"
PROGRAMS = ("share", "kill_often", "flood", "peak")
HANGS = "/run/share.hangs"
"""While this file exists, the file server of /mnt/share answers nothing."""
SLOW = 90
"""Seconds: emulated, a tick with its children takes some."""
VARIABLES = {
    # The unit writes nowhere else: the check of a test does.
    "node_health_drop_ins": {UNIT: {"10-test.conf": "[Service]\nReadWritePaths=/mnt/disk\n"}},
}
_FILES = {
    "/etc/sysctl.d/test.conf": "kernel.printk_devkmsg = on\n",
    "/etc/systemd/system/share.service": (
        f"[Unit]\nBefore={UNIT}\n[Service]\nExecStartPre=-modprobe fuse\n"
        f"ExecStart=/usr/bin/python3 /root/share.py /mnt/share {HANGS}\n"
        "ExecStartPost=sh -c 'until mountpoint -q /mnt/share; do sleep 0.2; done'\n[Install]\nWantedBy=multi-user.target\n"
    ),
    # It fails without a verdict.
    "/etc/systemd/system/slurmd.service": (
        f"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=cp {RUN}/verdict /run/at-slurmd\n"
        "[Install]\nWantedBy=multi-user.target\n"
    ),
}


class HealthNode:
    """The guest with the agent."""

    def __init__(self, guest: Guest) -> None:
        """Use a guest."""
        self.guest = guest

    def prepare(self) -> None:
        """Give the guest its mounts and programs, and the stand-in for slurmd, which the next boot starts."""
        run = self.guest.run
        run("base64 -d | gunzip > /root/disk && mkdir -p /mnt/disk /mnt/share", stdin=_disk())
        run("echo '/root/disk /mnt/disk ext4 loop,nofail 0 0' >> /etc/fstab")
        programs = {f"/root/{name}.py": (HERE / f"{name}.py").read_text() for name in PROGRAMS}
        for path, text in {**_FILES, **programs}.items():
            run(f"cat > {path}", stdin=text)
        run("systemctl daemon-reload && systemctl enable --now share.service && systemctl enable slurmd.service")
        run("mount /mnt/disk && sysctl -q -p /etc/sysctl.d/test.conf")
        run("systemd-run -q --unit=peak python3 /root/peak.py /run/peak")

    def play(self, name: str) -> Run:
        """Run a playbook of this folder on the node."""
        command = ["ansible-playbook", f"--inventory={HERE / 'guest.bedplate.yml'}", "--user=root"]
        command += [f"--extra-vars={json.dumps(VARIABLES)}", str(HERE / f"{name}.yml")]
        env = {**environment(self.guest), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        return Run(subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False))

    @property
    def verdict(self) -> Verdict:
        """Return the verdict. VerdictError: it cannot be read."""
        return verdict_line.parse(self.guest.read(f"{RUN}/verdict"))

    @property
    def details(self) -> dict[str, Any]:
        """Return verdict.json."""
        data: dict[str, Any] = json.loads(self.guest.read(f"{RUN}/verdict.json"))
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
                f"cat {RUN}/verdict; journalctl -u {UNIT} -n 30 --no-pager"
            ).stdout
            time.sleep(1)

    def until_status(self, status: str, seconds: float = SLOW) -> float:
        """Wait for the status of a verdict; return the seconds."""
        return self.until(lambda: self.verdict.status == status, seconds)

    def ticks_on(self, ticks: int = 1) -> None:
        """Wait for verdicts of later ticks."""
        for _ in range(ticks):
            before = self.verdict.written
            self.until(lambda before=before: self.verdict.written > before)  # type: ignore[misc]

    def write_log(self, text: str) -> None:
        """Write a record to the kernel's log."""
        self.guest.run(f"echo '<4>{text}' > /dev/kmsg")

    def install_check(self, script: str) -> None:
        """Install the site's check; the agent runs it from the next tick on."""
        self.guest.run(f"cat > {CHECK}.new && chmod 0755 {CHECK}.new && mv {CHECK}.new {CHECK}", stdin=script)

    def states(self, program: str) -> list[str]:
        """Return the states of the processes of a program, such as D."""
        return [line[0] for line in self.guest.run(f"ps -C {program} -o stat= || true").split()]

    def leftovers(self) -> list[str]:
        """Return the kinds of the children that the agent has recorded."""
        return [one["kind"] for one in json.loads(self.guest.read(f"{RUN}/probes/children.json"))]

    def bundles(self) -> list[str]:
        """Return the folders of evidence of Xid 79."""
        return self.guest.run(f"ls -d {STATE}/evidence/*xid-79* 2>/dev/null || true").split()

    def shown(self, name: str, unit: str = UNIT) -> str:
        """Return a property of a unit."""
        return self.guest.run(f"systemctl show {unit} --property={name} --value")


def _disk() -> str:
    """Return an empty ext4, which the guest has no program to make, compressed and in base64."""
    with tempfile.NamedTemporaryFile() as file:
        os.truncate(file.name, 16 << 20)
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", file.name], check=True)
        return base64.b64encode(gzip.compress(Path(file.name).read_bytes())).decode()
