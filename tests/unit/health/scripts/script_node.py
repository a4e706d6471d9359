# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a folder for the scripts of roles/node_health: each script with its absolute paths moved below the folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

SCRIPTS = Path(__file__).parents[4] / "roles/node_health/files"
BOOT = "11111111-2222-3333-4444-555555555555"
UPTIME = 5000
FILES = ("/etc/bedplate", "/run/bedplate")
_MOVED = (
    *FILES,
    "/proc/sys/kernel/random/boot_id",
    "/proc/uptime",
    "/dev/shm",
    "/sys/fs/cgroup",
)


def shells() -> list[str]:
    """Return the shells of this machine that may be a node's sh."""
    return [name for name in ("dash", "bash", "busybox") if shutil.which(name)]


class ScriptNode:
    """Use its folder as the root directory of a node."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.health = folder / "run/bedplate/health"
        for name in (
            "etc/bedplate/health",
            "run/bedplate/health",
            "proc/sys/kernel/random",
            "dev/shm",
            "sys/fs/cgroup",
        ):
            (folder / name).mkdir(parents=True)
        self.stubs = folder / "stubs"
        self.stubs.mkdir()
        (folder / "proc/sys/kernel/random/boot_id").write_text(f"{BOOT}\n")
        self.uptime(UPTIME)

    def uptime(self, seconds: int) -> None:
        (self.folder / "proc/uptime").write_text(f"{seconds}.42 9999.99\n")

    def verdict(self, text: str | bytes) -> None:
        (self.health / "verdict").write_bytes(text if isinstance(text, bytes) else text.encode())

    def sh(self, shell: str) -> str:
        """Return a link `sh` to a shell: bash and busybox see by their name that they are sh."""
        link = self.folder / "shells" / shell / "sh"
        if not link.is_symlink():
            link.parent.mkdir(parents=True)
            link.symlink_to(str(shutil.which(shell)))
        return str(link)

    def script(self, name: str, *changes: tuple[str, str], moved: Sequence[str] = _MOVED) -> Path:
        """Write a script with moved paths, and with changes of its text, each of which must apply."""
        text = (SCRIPTS / name).read_text()
        for old, new in changes:
            assert old in text, f"{old!r} is not in {name}"
            text = text.replace(old, new)
        for path in moved:
            text = text.replace(path, f"{self.folder}{path}")
        # A program of the script is a stub of the test, or one of the system.
        text = text.replace("PATH=/usr/sbin", f"PATH={self.stubs}:/usr/sbin")
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def stub(self, name: str, text: str = "") -> Path:
        """Put a program into the script's PATH, which writes its arguments into a file; return this file."""
        log = self.folder / f"{name}.log"
        path = self.stubs / name
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>"{log}"\n{text}\n')
        path.chmod(0o755)
        return log

    def run(
        self, path: Path, shell: str = "dash", arguments: Sequence[str] = (), options: Sequence[str] = (), **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script as slurmd does: without PATH, with nothing on standard input; in its folder, where a pattern finds files."""
        return subprocess.run(
            [self.sh(shell), *options, str(path), *arguments],
            env=env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=30,
            check=False,
        )

    def passed(self) -> list[str]:
        """Return the counted causes."""
        path = self.health / "passed"
        return path.read_text().split() if path.is_file() else []


def is_root() -> bool:
    return os.geteuid() == 0
