# SPDX-License-Identifier: GPL-3.0-or-later
"""Put another socket into the place of munged's, while munged runs and clients connect, and put munged's back.

Clients find a socket by its path, and connect to the file that they find. So munged's socket gets a second name, and the other socket is
renamed over the first one: at each time the path leads to one of both. A munged that starts again meanwhile binds the second name: its unit
has a drop-in for that.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

BACKLOG = 1024
OWN = ".own"
"""What the second name of munged's own socket ends with."""
_NEXT = ".next"
# A munged that restarts listens again in this time.
_PATIENCE = 3.0
_PAUSE = 0.02


class PairSocketError(Exception):
    """A socket without a file, so that no client can find it."""


class PairSocket:
    """`known`: the path that clients of munge have. `kept`: the path of the socket that takes its place, in a folder on the same mount."""

    def __init__(self, known: Path, kept: Path) -> None:
        self.known = known
        self.kept = kept
        self.own = known.with_name(known.name + OWN)
        self._next = known.with_name(known.name + _NEXT)
        # Of a program that was killed: nothing listens there.
        self._before = _inode(kept)

    def listen(self) -> socket.socket:
        """Return a listening socket, which no client finds before `take`."""
        with suppress(FileNotFoundError):
            self.kept.unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.kept))
        self.kept.chmod(0o777)
        listener.listen(BACKLOG)
        return listener

    def take(self) -> bool:
        """Lead clients to the socket of `listen`; return whether they are led there.

        Call it again and again: a munged that ends removes the path. Raises PairSocketError.
        """
        ours, found = _inode(self.kept), _inode(self.known)
        if ours is None:
            raise PairSocketError(f"{self.kept}: removed by another program")
        if found == ours:
            return True
        if not self.known.parent.is_dir():
            return False
        # The socket of a munged must not be lost: it may be bound, and not listen yet.
        if found is not None and found != self._before:
            if is_live(self.known):
                self._name(self.known, self.own, found)
                if _inode(self.own) != found:
                    return False
            elif not is_live(self.own):
                return False
        self._name(self.kept, self.known)
        return _inode(self.known) == ours

    def put_back(self, patience: float = _PATIENCE) -> bool:
        """Lead clients to munged again, for which it waits some seconds; return whether it listens there."""
        end = time.monotonic() + patience
        while not (is_back := self._is_back()) and time.monotonic() < end:
            time.sleep(_PAUSE)
        return is_back

    def _is_back(self) -> bool:
        if is_live(self.own):
            self.own.replace(self.known)
            # Two names of one file are not replaced by each other.
            self.own.unlink(missing_ok=True)
            return True
        found = _inode(self.known)
        return found not in (None, self._before, _inode(self.kept)) and is_live(self.known)

    def _name(self, source: Path, target: Path, expected: tuple[int, int] | None = None) -> None:
        """Give a socket a further name, unless it is another one than expected."""
        self._next.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            os.link(source, self._next)
            if expected in (None, _inode(self._next)):
                self._next.replace(target)
        # A name of the same file is not replaced, and stays.
        self._next.unlink(missing_ok=True)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (found.st_dev, found.st_ino)


def is_live(path: Path) -> bool:
    """Return whether a daemon listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            # It listens, and many clients wait.
            return True
        except OSError:
            return False
    return True
