# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of the molecule scenario `health`: what Slurm has of them, and the file that an agent reads as the kernel's log."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from lab.scenario_site import ssh

GPU = "0000:3b:00.0"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
RESET = f"bedplate-health: reset of {GPU} done"
DEADLINE = 120
"""Seconds from a line in the log to the drain."""


def done(machine: str, command: str) -> str:
    """Run a command on a machine; return its output. AssertionError: it fails."""
    result = ssh(machine, command)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def node(host: Any, name: str) -> str:
    """Return a node as Slurm has it, in a line."""
    return str(host.check_output(f"scontrol --oneliner show node {name}"))


def reason(host: Any, name: str) -> str:
    """Return the reason of a node; "" without one."""
    found = re.search(r"Reason=(.*?) \[\w+@", node(host, name))
    return found[1] if found else ""


def reported(host: Any, name: str) -> str:
    """Return the status that a node reports to Slurm; "" without a report."""
    found = re.search(r" Extra=(\{.*?\}\})", node(host, name))
    return str(json.loads(found[1])["bp"]["s"]) if found else ""


def log(machine: str, text: str) -> None:
    """Write a record into the file that the agent of a machine reads as the kernel's log."""
    number, uptime = "$(($(wc -l < /var/lib/test-kmsg) + 1))", "$(cut -d. -f1 /proc/uptime)"
    done(machine, f"printf '4,%d,%d,-;%s\\n' {number} {uptime}000000 '{text}' >> /var/lib/test-kmsg")


def until(seconds: float, holds: Callable[[], object], pause: float = 1.0) -> float:
    """Wait until a condition holds; return the seconds that it took. AssertionError: it does not in time."""
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < seconds, "not in time"
        time.sleep(pause)
    return time.monotonic() - start
