# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command of this machine, with an end to the waiting."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

# A module started over SSH may come without the sbin directories, where visudo, sshd and nginx are.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"])


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `code` is None when it had to be stopped."""

    code: int | None
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Return all that it said, the end of it if it said much."""
        return "\n".join(part.strip() for part in (self.stdout, self.stderr) if part.strip())[-4000:]


def find(program: str) -> str | None:
    """Return the path of a program of this machine."""
    return shutil.which(program, path=SEARCH_PATH)


def run(argv: list[str], timeout: float = 120.0) -> Outcome:
    """Run a command without a shell, in English, with nothing to read."""
    environment = {**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env=environment, check=False
        )
    except subprocess.TimeoutExpired as error:
        return Outcome(None, _text(error.stdout), f"{_text(error.stderr)}\nstopped after {timeout:.0f} s")
    except OSError as error:
        return Outcome(127, "", f"{argv[0]}: {error.strerror}")
    return Outcome(done.returncode, _text(done.stdout), _text(done.stderr))


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
