# SPDX-License-Identifier: GPL-3.0-or-later
"""Access to the machines of a lab: one key per lab, and only hosts whose keys were read from the containers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from lab.machines import Machine
from lab.paths import ssh_config_of, state_of
from lab.podman import Podman
from lab.shell import LabError, capture, succeeds

PATIENCE = 90
"""Seconds a node may take from its start to the first SSH login. Five boot in 10 s on two idle cores."""


def public_key(lab: str) -> str:
    """Return the public half of the lab's SSH key, which is made on first use."""
    key = state_of(lab) / "id_ed25519"
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True)
        key.parent.chmod(0o700)
        capture(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"bedplate-{lab}", "-f", str(key)])
    return key.with_suffix(".pub").read_text()


def write_config(lab: str, machines: Iterable[Machine], podman: Podman, containers: dict[str, str]) -> None:
    """Write ssh_config and known_hosts from what the containers really have."""
    folder = state_of(lab)
    known, hosts = [], []
    for machine in machines:
        kind, key = _host_key(podman, containers[machine.name]).split()[:2]
        known.append(f"{machine.address} {kind} {key}\n")
        hosts.append(f"Host {machine.name}\n    HostName {machine.address}\n")
    hosts.append(
        "Host *\n"
        "    User root\n"
        f"    IdentityFile {_quoted(folder / 'id_ed25519')}\n"
        "    IdentitiesOnly yes\n"
        f"    UserKnownHostsFile {_quoted(folder / 'known_hosts')}\n"
        "    GlobalKnownHostsFile /dev/null\n"
        "    StrictHostKeyChecking yes\n"
        "    ConnectTimeout 10\n"
        # A kept connection to a node that was removed and made again must not outlive it.
        "    ServerAliveInterval 5\n"
        "    ServerAliveCountMax 3\n"
    )
    (folder / "known_hosts").write_text("".join(known))
    ssh_config_of(lab).write_text("".join(hosts))


def wait(lab: str, machines: Iterable[Machine]) -> None:
    """Wait until every machine lets the lab's key in."""
    deadline = time.monotonic() + PATIENCE
    for machine in machines:
        while not answers(lab, machine.name):
            if time.monotonic() > deadline:
                raise LabError(
                    f"{machine.name} ({machine.address}) runs but refuses SSH.\n"
                    f"See why: ssh -v -F {ssh_config_of(lab)} {machine.name} true"
                )
            time.sleep(0.5)


def answers(lab: str, machine: str) -> bool:
    """Return True if a machine lets the lab's key in right now."""
    return succeeds(login(lab, machine, "true"), timeout=15)


def login(lab: str, machine: str, *command: str) -> list[str]:
    """Return the command that runs another one on a machine."""
    return ["ssh", "-F", str(ssh_config_of(lab)), machine, *command]


def _host_key(podman: Podman, container: str) -> str:
    """Read a node's host key once its first boot has made it."""
    deadline = time.monotonic() + PATIENCE
    while not succeeds(["podman", "exec", container, "test", "-s", "/etc/ssh/ssh_host_ed25519_key.pub"]):
        if time.monotonic() > deadline:
            journal = podman("exec", container, "journalctl", "-b", "-n", "15", "--no-pager")
            raise LabError(f"{container} did not make its SSH host key within {PATIENCE} s. Its journal:\n{journal}")
        time.sleep(0.5)
    return podman("exec", container, "cat", "/etc/ssh/ssh_host_ed25519_key.pub")


def _quoted(path: Path) -> str:
    return f'"{path}"'
