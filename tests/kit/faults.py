# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults on the machines of a lab, each a context manager that undoes it, also after a test that failed.

They reach a container by podman from the host, so that a machine whose network or SSH is cut can be mended. The clock is not here:
containers share the machine's; tests/guest has a kernel of its own.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab.nodes import container_name

PATIENCE = 30
"""Seconds until a daemon answers again."""


class FaultError(RuntimeError):
    """A fault that could not be made or undone; the message has the machine, the command and what it said."""


class Machine:
    """One container of a lab, from the host."""

    def __init__(self, lab: str, name: str) -> None:
        self.lab = lab
        self.name = name
        self.container = container_name(lab, name)

    def run(self, command: str, check: bool = True) -> str:
        """Run a shell command in the container and return its output; raise FaultError if it fails."""
        return self._capture(["podman", "exec", self.container, "sh", "-c", command], check)

    def on_host(self, command: str) -> str:
        """Run a command of the host in the container's network; raise FaultError if it fails."""
        pid = self._capture(["podman", "inspect", "--format", "{{.State.Pid}}", self.container], True).strip()
        return self._capture(["nsenter", "--target", pid, "--net", *shlex.split(command)], True)

    def _capture(self, command: list[str], check: bool) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if check and done.returncode != 0:
            raise FaultError(f"{self.name}: {shlex.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


@contextmanager
def stopped(machine: Machine, unit: str) -> Iterator[None]:
    """Stop a unit; start it again."""
    machine.run(f"systemctl stop {unit}")
    try:
        yield
    finally:
        machine.run(f"systemctl reset-failed {unit}; systemctl start {unit}")


@contextmanager
def frozen(machine: Machine, process: str) -> Iterator[None]:
    """Stop a process by its exact name without ending it: it is there, and answers nobody."""
    machine.run(f"pkill --signal STOP --exact {shlex.quote(process)}")
    try:
        yield
    finally:
        machine.run(f"pkill --signal CONT --exact {shlex.quote(process)}")


@contextmanager
def killed_when(machine: Machine, process: str, condition: str, unit: str) -> Iterator[None]:
    """Kill a process with -9 as soon as a shell condition holds; end the watch and start its unit again.

    The condition is asked 50 times a second, such as `grep -q MessageTimeout=45 /etc/slurm/slurm.conf`.
    """
    watch = f"until {condition}; do sleep 0.02; done; pkill --signal KILL --exact {shlex.quote(process)}"
    name = f"kit-kill-{time.monotonic_ns()}"
    machine.run(f"systemd-run --quiet --unit={name} sh -c {shlex.quote(watch)}")
    try:
        yield
    finally:
        machine.run(f"systemctl stop {name}", check=False)
        machine.run(f"systemctl reset-failed {unit}; systemctl start {unit}")


@contextmanager
def cut_off(machine: Machine) -> Iterator[None]:
    """Drop every packet to and from a machine but those to itself; its addresses and routes stay."""
    rules = [
        f"iptables --wait {{}} {chain} ! {way} lo --jump DROP" for chain, way in (("INPUT", "-i"), ("OUTPUT", "-o"))
    ]
    try:
        for rule in rules:
            machine.on_host(rule.format("--insert"))
        yield
    finally:
        for rule in rules:
            machine.on_host(rule.format("--delete"))


@contextmanager
def parted(machine: Machine, address: str) -> Iterator[None]:
    """Drop every packet between a machine and one address; both reach all others."""
    rules = [
        f"iptables --wait {{}} {chain} {way} {address} --jump DROP"
        for chain, way in (("INPUT", "-s"), ("OUTPUT", "-d"))
    ]
    try:
        for rule in rules:
            machine.on_host(rule.format("--insert"))
        yield
    finally:
        for rule in rules:
            machine.on_host(rule.format("--delete"))


@contextmanager
def unreachable(machine: Machine, port: int = 22) -> Iterator[None]:
    """Let nobody connect to a port, by default to SSH; connections that are open end, too."""
    rule = f"iptables --wait {{}} INPUT ! -i lo --protocol tcp --dport {port} --jump REJECT --reject-with tcp-reset"
    machine.on_host(rule.format("--insert"))
    try:
        yield
    finally:
        machine.on_host(rule.format("--delete"))


@contextmanager
def full_disk(machine: Machine, folder: str, free_kib: int = 0) -> Iterator[None]:
    """Let a folder be on a disk of its own with no more than `free_kib` left; what is in it then goes back to the old disk.

    Processes that hold files of the folder open keep those of the old disk.
    """
    target, spare = shlex.quote(folder), f"/run/kit-disk-{time.monotonic_ns()}"
    filler = f"{target}/.kit-filler"
    machine.run(
        f"used=$(du -sk {target} | cut -f1) && mkdir {spare} && mount -t tmpfs -o size=$((used + 256 + {free_kib}))k kit {spare}"
        f" && cp -a {target}/. {spare}/ && chown --reference={target} {spare} && chmod --reference={target} {spare}"
        f" && mount --move {spare} {target} 2>/dev/null || mount --bind {spare} {target}"
    )
    try:
        machine.run(f"dd if=/dev/zero of={filler} bs=1k 2>/dev/null; truncate -s -{free_kib}K {filler}; true")
        yield
    finally:
        machine.run(
            f"rm -f {filler}; mkdir -p {spare}.new && cp -a {target}/. {spare}.new/; umount {target}; umount {spare} 2>/dev/null;"
            f" cd {target} && find . -mindepth 1 -delete; cp -a {spare}.new/. {target}/ && rm -rf {spare}.new {spare}"
        )


def wait_until(condition: str, machine: Machine, seconds: float = PATIENCE) -> None:
    """Wait until a shell condition holds on a machine; raise FaultError after `seconds`."""
    deadline = time.monotonic() + seconds
    while machine.run(f"{condition} >/dev/null 2>&1 && echo yes; true").strip() != "yes":
        if time.monotonic() > deadline:
            raise FaultError(f"{machine.name}: after {seconds} s this still fails: {condition}")
        time.sleep(0.5)
