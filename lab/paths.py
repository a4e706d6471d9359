# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of the lab's files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

STATE = ROOT / ".cache" / "lab"
"""One folder per running lab: SSH key, known hosts, secrets, logs. Ignored by git, removed by `down`."""

GUESTS = ROOT / ".cache" / "guest"
"""One folder per running guest: its disk, SSH key, console, process number. Removed when it is stopped."""

CLUSTER_SUFFIX = ".bedplate.yml"


def state_of(lab: str) -> Path:
    """Return the state folder of one lab."""
    return STATE / lab


def ssh_config_of(lab: str) -> Path:
    """Return the ssh_config with which ssh, Ansible and testinfra reach the machines of a lab."""
    return state_of(lab) / "ssh_config"


def image_cache() -> Path:
    """Return the folder of built node images; it outlives labs and is shared by checkouts."""
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "bedplate"
    return Path("/var/cache/bedplate")


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the folder of built images: another process of any checkout waits, and finds them made."""
    folder = image_cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
