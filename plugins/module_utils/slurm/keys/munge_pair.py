# SPDX-License-Identifier: GPL-3.0-or-later
"""Program of bedplate-munge-pair.service: munge with the old and the new key, while playbooks/turn_keys.yml replaces the key.

Two munged run, each with one key. This program takes the place of the old one's socket and hands each request to one of both: credentials
are made with the key that /etc/munge/encodes names, and read with the key that made them. With `put_back` as argument it only
leads clients to munged again. It runs without Ansible: the role slurm installs it with the modules that it imports.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from .pair_socket import PairSocket
from .pair_worker import NEW, OLD, Encoder, Worker

KNOWN = "/run/munge/munge.socket.2"
NEXT = "/run/munge-next/munge.socket"
FOLDER = "/run/bedplate-munge-pair"
ENCODES = "/etc/munge/encodes"
# Seconds between two looks at the socket, and for which a worker waits for a client before it looks whether it shall end.
_LOOK, _WAIT = 0.02, 0.5
_FEWEST, _MOST = 4, 16


@dataclass(frozen=True)
class Places:
    """Paths of a machine: the socket that clients know, that of the munged with the new key, the own folder, and which key encodes."""

    known: Path = Path(KNOWN)
    next: Path = Path(NEXT)
    folder: Path = Path(FOLDER)
    encodes: Path = Path(ENCODES)

    def pair(self) -> PairSocket:
        """Return the socket that takes munged's place."""
        return PairSocket(self.known, self.folder / "pair.socket")


class MungePair:
    """Keep the socket and the workers until a signal ends them."""

    def __init__(self, places: Places, workers: int) -> None:
        self._places = places
        self._count = workers
        self._socket = places.pair()
        self._listener = self._socket.listen()
        # As accept blocks, the kernel wakes one worker for one client.
        self._listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(_WAIT), int(_WAIT % 1 * 1e6))
        )
        self._workers: set[int] = set()
        self._ends = False

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; then lead clients to munged again, and answer all clients that wait."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        self._fill()
        self._socket.take()
        _notify("READY=1")
        while not self._ends:
            self._reap()
            self._fill()
            self._socket.take()
            time.sleep(_LOOK)
        self._socket.put_back()
        # Shared with the workers: they no longer wait for clients.
        self._listener.setblocking(False)
        self._end_workers()

    def _end_workers(self) -> None:
        """Signal the workers until all have ended: Python drops a signal that a worker gets while it is being forked."""
        while self._workers:
            for worker in list(self._workers):
                try:
                    os.kill(worker, signal.SIGTERM)
                    ended = os.waitpid(worker, os.WNOHANG)[0]
                except (ProcessLookupError, ChildProcessError):
                    ended = worker
                self._workers.discard(ended)
            time.sleep(_LOOK)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._ends = True

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) > 0:
                _say(f"worker {ended} has ended")
                self._workers.discard(ended)

    def _fill(self) -> None:
        while len(self._workers) < self._count:
            master = os.getpid()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    self._work(master)
                    code = 0
                finally:
                    os._exit(code)
            self._workers.add(child)

    def _work(self, master: int) -> None:
        """Serve clients in this worker, until it shall end or the program has ended."""
        own = self._socket.own
        worker = Worker({OLD: own, NEW: self._places.next}, Encoder(self._places.encodes), _say)
        while True:
            try:
                client = self._listener.accept()[0]
            except BlockingIOError:
                if self._ends or os.getppid() != master:
                    return
                continue
            except OSError as error:
                _say(f"no client accepted: {error}")
                time.sleep(_LOOK)
                continue
            worker.serve(client)


def _say(text: str) -> None:
    """Write a line to the journal."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _notify(state: str) -> None:
    """Report to systemd that the unit is ready."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
        peer.sendto(state.encode(), f"\0{path[1:]}" if path.startswith("@") else path)


def main(arguments: list[str]) -> int:
    """Run the program; return its exit status."""
    places = Places()
    if arguments == ["put_back"]:
        places.pair().put_back()
        return 0
    if arguments:
        _say(f"unknown arguments {' '.join(arguments)}; allowed: none, or put_back")
        return 2
    places.folder.mkdir(mode=0o755, exist_ok=True)
    MungePair(places, min(_MOST, max(_FEWEST, 2 * (os.cpu_count() or 1)))).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
