# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer requests of munge's clients by one of two munged, each with its own key.

munged trusts the kernel about who its client is (SO_PEERCRED). So a worker connects to munged with the user and the group that the kernel
reports of its own client. It is a process with one thread: the identity that it takes is of the one request that it works on.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .munge_wire import DECODE, ENCODE, INVALID, Message, WireError, receive, send

NEW, OLD = "new", "old"
SECONDS = 2.0
"""How long a client of munge waits for an answer before it tries again."""
# A munged that restarts is back in this time, and the client still waits then.
_BACK = 1.5
_PAUSE = 0.02
_CREDENTIALS = struct.Struct("3i")
_NOBODY = -1


class IdentityError(Exception):
    """An identity that this process cannot take, or cannot leave."""


@dataclass(frozen=True)
class Identity:
    """User and group of a client."""

    user: int
    group: int

    @classmethod
    def of(cls, client: socket.socket) -> Identity:
        """Return the effective user and group that a client had when it connected. Raises WireError without any."""
        found = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _process, user, group = _CREDENTIALS.unpack(found)
        if _NOBODY in (user, group):
            raise WireError("a client without a user")
        return cls(user & 0xFFFFFFFF, group & 0xFFFFFFFF)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take this identity as the effective one for a while. Raises IdentityError.

        Afterwards the process has its own identity again, or it ends.
        """
        own = (os.geteuid(), os.getegid())
        if (self.user, self.group) == own:
            yield
            return
        try:
            try:
                # The group first, as only root may change it; then the user, and back in the other order.
                os.setresgid(_NOBODY, self.group, _NOBODY)
                os.setresuid(_NOBODY, self.user, _NOBODY)
            except OSError as error:
                raise IdentityError(f"user {self.user}, group {self.group}: {error.strerror}") from None
            if (os.geteuid(), os.getegid()) != (self.user, self.group):
                raise IdentityError(f"user {self.user}, group {self.group}: not taken")
            yield
        finally:
            _give_back(own)


def _give_back(own: tuple[int, int]) -> None:
    """Return to the own identity; a process that cannot must not answer the next client."""
    try:
        os.setresuid(_NOBODY, own[0], _NOBODY)
        os.setresgid(_NOBODY, own[1], _NOBODY)
    except OSError:
        os._exit(1)
    if (os.geteuid(), os.getegid()) != own:
        os._exit(1)


class Encoder:
    """The key that makes credentials: the new one if a file has `new`, which is read again when it is replaced; else the old one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._name = OLD

    def name(self) -> str:
        """Return `old` or `new`. A file that cannot be read at the moment changes nothing."""
        try:
            found = self._path.stat()
            stamp = (found.st_ino, found.st_mtime_ns)
            if stamp != self._stamp:
                text = self._path.read_text(encoding="ascii").strip()
                self._stamp, self._name = stamp, NEW if text == NEW else OLD
        except FileNotFoundError:
            self._stamp, self._name = None, OLD
        except (OSError, ValueError):
            pass
        return self._name


class Worker:
    """Serve clients of one listening socket by two munged."""

    def __init__(self, sockets: dict[str, Path], encoder: Encoder, say: Callable[[str], object]) -> None:
        """`sockets`: `old` and `new` -> the socket of its munged. `say` takes a line for the journal."""
        self._sockets = sockets
        self._encoder = encoder
        self._say = say

    def serve(self, client: socket.socket) -> None:
        """Answer one client, or close its connection: it then tries again."""
        deadline = time.monotonic() + SECONDS
        try:
            who = Identity.of(client)
            request = receive(client, deadline)
            if answer := self._answer(request, who, deadline):
                send(client, answer, deadline)
        except WireError:
            # A client that is gone or too slow; munged closes the connection, too.
            pass
        except (IdentityError, OSError) as error:
            self._say(f"a request was not answered: {error}")
        finally:
            client.close()

    def _answer(self, request: Message, who: Identity, deadline: float) -> Message | None:
        """Return the answer of the munged that has the key, None without any."""
        name = self._encoder.name()
        if request.kind == ENCODE:
            return self._ask(name, request, who, deadline, patience=_BACK)
        if request.kind != DECODE:
            return None
        first = self._ask(name, request, who, deadline)
        if first is not None and first.error != INVALID:
            return first
        second = self._ask(OLD if name == NEW else NEW, request, who, deadline)
        if second is not None and second.error != INVALID:
            return second
        # Without an answer of both nobody knows whether the credential is invalid.
        return first if second is not None else None

    def _ask(
        self, name: str, request: Message, who: Identity, deadline: float, patience: float = 0.0
    ) -> Message | None:
        """Return the answer of one munged, None if it does not answer."""
        end = time.monotonic() + patience
        while True:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as munged:
                    munged.settimeout(SECONDS)
                    with who.taken():
                        munged.connect(str(self._sockets[name]))
                    send(munged, request, deadline)
                    return receive(munged, deadline)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                # Not there, or too many wait already.
                if time.monotonic() + _PAUSE >= end:
                    return None
                time.sleep(_PAUSE)
            except WireError:
                return None
