# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest: started, reached over SSH, rebooted, and removed."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lab.guest import image, qemu
from lab.paths import GUESTS
from lab.shell import LabError, capture, say

BOOT = 600
"""Seconds from the start to the end of a boot. One takes a minute or two on two slow cores that do nothing else."""
COMMAND = 180
CYCLES = 3
"""How often the power is switched off and on again when a kernel gives up during a boot.

QEMU before 8.1 (Debian 12's) emulates several CPUs with a race: now and then one meets a breakpoint that the kernel, which changes its own
code during a boot, has taken away already, and panics. What a role breaks would panic every time.
"""
_POLL, _GREETING = 1.0, 4.0
_CREDENTIAL = "credential."
_SSH_CONFIG = """\
Host *
    HostName 127.0.0.1
    Port {port}
    HostKeyAlias {name}
    User root
    IdentityFile "{folder}/id_ed25519"
    IdentitiesOnly yes
    UserKnownHostsFile "{folder}/known_hosts"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    LogLevel ERROR
    KexAlgorithms ^curve25519-sha256
    ConnectTimeout 15
    ServerAliveInterval 15
    ServerAliveCountMax 4
    ControlMaster auto
    ControlPath {control}
    ControlPersist 600
"""


class Guest:
    """One virtual machine of this checkout, found by its name. Use as a context to have it removed at the end."""

    def __init__(self, name: str = "guest", nics: Sequence[qemu.GuestNic] = (), cpu: str = "max") -> None:
        """Name it, with the NICs that it has besides the one for SSH, and QEMU's model of its CPUs; nothing is started."""
        self.name = name
        self.nics = nics
        self.cpu = cpu
        self.folder = GUESTS / name
        # The path of a socket may have about a hundred characters, and that of a checkout may have more.
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]
        self._control = Path(tempfile.gettempdir()) / f"bedplate-guest-{digest}"

    def __enter__(self) -> Guest:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        self.remove()

    @property
    def ssh_config(self) -> Path:
        """The file with which ssh and Ansible reach it, by any name or address."""
        return self.folder / "ssh_config"

    @property
    def is_running(self) -> bool:
        """Return True if its process runs."""
        return qemu.process(self.folder) is not None

    def start(self) -> None:
        """Boot a new guest from the image, which is built if it is missing, and wait for the end of its boot."""
        disk = image.ensure()
        self.remove()
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o700)
        started = time.monotonic()
        qemu.overlay(disk, self.folder)
        self._make_credentials()
        self._write_config(_free_port())
        self._switch_on()
        self.wait()
        say("guest", f"{self.name} booted in {time.monotonic() - started:.0f} s")

    def ssh(self, command: str, *, stdin: str = "", timeout: float = COMMAND) -> subprocess.CompletedProcess[str]:
        """Run a command there as root; the result has its exit status and its output. LabError: no answer in time."""
        try:
            return subprocess.run(
                self.login(command), input=stdin, capture_output=True, text=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired:
            raise LabError(self._told(f"no answer within {timeout:.0f} s to: {command}")) from None

    def run(self, command: str, *, stdin: str = "", timeout: float = COMMAND) -> str:
        """Run a command there as root and return its output without the last newline. LabError: it failed."""
        done = self.ssh(command, stdin=stdin, timeout=timeout)
        if done.returncode:
            raise LabError(self._told(f"exit status {done.returncode} of: {command}\n{done.stdout}{done.stderr}"))
        return done.stdout.rstrip("\n")

    def login(self, *command: str) -> list[str]:
        """Return the command that runs a command on the guest, or logs in."""
        return ["ssh", "-F", str(self.ssh_config), self.name, *command]

    def read(self, path: str) -> str:
        """Return a file of the guest, without its last newline."""
        return self.run(f"cat {path}")

    def boot_id(self) -> str:
        """Return what is another one after each boot; "" if it does not answer."""
        if not self._greets():
            return ""
        try:
            done = self.ssh("cat /proc/sys/kernel/random/boot_id", timeout=30)
        except LabError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    def wait(self, before: str = "") -> None:
        """Wait until it answers in another boot than that with the id `before`, and has started all of its units."""
        deadline, cycles = time.monotonic() + BOOT, 0
        while self.boot_id() in ("", before):
            if qemu.panicked(self.folder) and cycles < CYCLES:
                cycles += 1
                say("guest", f"{self.name}: its kernel gave up; switched off and on again ({cycles} of {CYCLES})")
                qemu.end(self.folder)
                self._switch_on()
            if not self.is_running:
                raise LabError(self._told("its virtual machine ended"))
            if time.monotonic() > deadline:
                raise LabError(self._told(f"no answer by SSH within {BOOT} s"))
            time.sleep(_POLL)
        # `degraded` is a state, too: what failed is the caller's to judge.
        self.ssh("systemctl is-system-running --wait", timeout=max(30, deadline - time.monotonic()))

    def reboot(self) -> float:
        """Reboot it as an operator does, and wait for the end of the next boot; return how many seconds it took."""
        started = time.monotonic()
        before = self.boot_id()
        if not before:
            raise LabError(self._told("it does not answer, so it cannot reboot"))
        # What it says of a message for those who are logged in is no matter: there is no logind.
        self.ssh("systemctl reboot")
        self._hang_up()
        self.wait(before)
        return time.monotonic() - started

    def failed_units(self) -> list[str]:
        """Return the units that failed in this boot."""
        return self.run("systemctl list-units --failed --plain --no-legend | cut -d' ' -f1").split()

    def remove(self) -> bool:
        """End it and remove all of it; return whether there was anything."""
        was_there = self.folder.exists()
        self._hang_up()
        qemu.end(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        for parent in (GUESTS, GUESTS.parent):
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
        return was_there

    def console(self, lines: int = 25) -> str:
        """Return the last lines of its console."""
        return qemu.console(self.folder, lines)

    def _switch_on(self) -> None:
        """Start the virtual machine on the disk that it has."""
        credentials = {
            path.name.removeprefix(_CREDENTIAL): path for path in sorted(self.folder.glob(f"{_CREDENTIAL}*"))
        }
        why = f"The guest {self.name} could not be started."
        words = qemu.command(self.name, self.folder, self._port, credentials, self.nics, self.cpu)
        capture(words, why=why)

    @property
    def _port(self) -> int:
        words = self.ssh_config.read_text().split()
        return int(words[words.index("Port") + 1])

    def _greets(self) -> bool:
        """Return True if its SSH daemon answers. A login that waits for one ties the emulated machine up in its boot."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=_GREETING) as one:
                return one.recv(4) == b"SSH-"
        except OSError:
            return False

    def _told(self, what: str) -> str:
        return f"guest {self.name}: {what}\nThe last lines of its console:\n{self.console()}"

    def _hang_up(self) -> None:
        """Close the connection that is kept open: it would outlive the boot without an answer."""
        if self.ssh_config.exists():
            command = ["ssh", "-F", str(self.ssh_config), "-O", "exit", self.name]
            subprocess.run(command, capture_output=True, timeout=30, check=False)
        self._control.unlink(missing_ok=True)

    def _make_credentials(self) -> None:
        """Make the keys of both ends, and the credentials of its systemd at boot."""
        for name in ("id_ed25519", "host_key"):
            key = str(self.folder / name)
            capture(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"bedplate-{self.name}", "-f", key])
        secret = base64.b64encode((self.folder / "host_key").read_bytes()).decode()
        texts = {
            "ssh.authorized_keys.root": (self.folder / "id_ed25519.pub").read_text(),
            "tmpfiles.extra": f"f~ /etc/ssh/ssh_host_ed25519_key 0600 root root - {secret}\n",
            "system.hostname": self.name,
        }
        for name, text in texts.items():
            path = self.folder / f"{_CREDENTIAL}{name}"
            path.touch(0o600)
            path.write_text(text)

    def _write_config(self, port: int) -> None:
        kind, key = (self.folder / "host_key.pub").read_text().split()[:2]
        (self.folder / "known_hosts").write_text(f"{self.name} {kind} {key}\n")
        text = _SSH_CONFIG.format(port=port, name=self.name, folder=self.folder, control=self._control)
        self.ssh_config.write_text(text)


def known() -> list[Guest]:
    """Return the guests of this checkout, running or half made."""
    names = sorted(path.name for path in GUESTS.iterdir() if path.is_dir()) if GUESTS.is_dir() else []
    return [Guest(name) for name in names]


def remove_every() -> None:
    """End and remove all guests of this checkout."""
    for guest in known():
        guest.remove()
        say("guest", f"{guest.name} removed")


def environment(guest: Guest) -> dict[str, str]:
    """Return the environment in which Ansible reaches a guest as if it were the only machine there is."""
    # The configuration file says all: with options of its own, Ansible would keep connections that nobody closes at a reboot.
    return {
        **os.environ,
        "ANSIBLE_SSH_ARGS": f'-F "{guest.ssh_config}"',
        "ANSIBLE_NOCOLOR": "1",
        "BEDPLATE_REPORT": str(guest.folder / "report"),
    }


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
