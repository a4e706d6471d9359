# SPDX-License-Identifier: GPL-3.0-or-later
"""Two real munged with a key each, and the program that serves both at one socket, as processes in a folder of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.pair_socket import is_live
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.pair_worker import NEW, OLD

NOBODY = pwd.getpwnam("nobody")
_PROGRAM = """
from pathlib import Path
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.munge_pair import MungePair, Places
top = Path({top!r})
MungePair(Places(top / "known/socket", top / "next/socket", top / "pair", top / "encodes"), {workers}).run()
"""


class MungedPair:
    """Use as a context. Clients have the socket `known`; `own` and `next` are of the munged with the old and with the new key."""

    def __init__(self) -> None:
        # Not in the folder of the test: clients of all users must reach it, and a socket's path is short.
        self.top = Path(tempfile.mkdtemp(prefix="bp", dir="/tmp"))
        self.top.chmod(0o755)
        self.known, self.next, self.own = (
            self.top / name for name in ("known/socket", "next/socket", "known/socket.own")
        )
        for name in ("known", "next", "pair"):
            (self.top / name).mkdir()
        for name in (OLD, NEW, "third"):
            (self.top / f"{name}.key").touch(0o600)
            (self.top / f"{name}.key").write_bytes(os.urandom(64))
        self._pair: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MungedPair:
        self.start_munged(OLD, self.known)
        self.start_munged(NEW, self.next)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for path in self.top.glob("*.pid"):
            with suppress(OSError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)
        shutil.rmtree(self.top)

    def start_munged(self, name: str, at: Path) -> None:
        """Start a munged with a key."""
        own = {one: f"--{one}-file={self.top}/{name}.{one}" for one in ("pid", "log", "seed", "key")}
        subprocess.run(["munged", "--force", f"--socket={at}", *own.values()], check=True, capture_output=True)

    def stop_munged(self, name: str) -> None:
        """Stop a munged, which removes its socket."""
        pid = int((self.top / f"{name}.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{pid}").exists())

    def start(self, workers: int = 4, before: str = "") -> None:
        """Start the program, and wait until it serves; `before` is Python code that is run first."""
        program = before + _PROGRAM.format(top=str(self.top), workers=workers)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._pair = subprocess.Popen([sys.executable, "-c", program], env=environment, start_new_session=True)
        until(self.serves)

    @property
    def process(self) -> int:
        """The program."""
        assert self._pair is not None
        return self._pair.pid

    def serves(self) -> bool:
        """Return whether clients are led to the program."""
        kept = self.top / "pair/pair.socket"
        with suppress(FileNotFoundError):
            return is_live(kept) and self.known.stat().st_ino == kept.stat().st_ino
        return False

    def stop(self) -> int:
        """End the program as systemd does; return its exit status."""
        assert self._pair is not None
        self._pair.terminate()
        return self._pair.wait(10)

    def kill(self) -> None:
        """Kill the program with its workers."""
        if self._pair is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._pair.pid, signal.SIGKILL)
            self._pair.wait()

    def encode_with(self, name: str) -> None:
        """Set the key that makes credentials, as a run does: by another file in its place."""
        path = self.top / "encodes.tmp"
        path.write_text(f"{name}\n")
        path.replace(self.top / "encodes")


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def made(socket: Path, *options: str, user: int | None = None) -> str:
    """Return a credential that munge makes at a socket, as a user."""
    done = subprocess.run(
        ["munge", "--no-input", f"--socket={socket}", *options],
        user=user,
        group=user,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(socket: Path, credential: str, user: int | None = None) -> str:
    """Return user and group who made a credential, or unmunge's error."""
    done = subprocess.run(
        ["unmunge", f"--socket={socket}", "--keys=UID,GID", "--numeric"],
        input=credential,
        user=user,
        group=user,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return done.stderr.strip() or f"error {done.returncode}"
    return " ".join(word for line in done.stdout.splitlines() for word in line.partition(":")[2].split())
