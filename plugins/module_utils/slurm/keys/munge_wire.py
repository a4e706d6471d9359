# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages between munged and its clients: a header of eleven bytes, then a body.

Version 4 of the format, which all releases since munge 0.5.10 have (src/libcommon/m_msg.c).
"""

from __future__ import annotations

import socket
import struct
import time
from typing import NamedTuple

ENCODE, ENCODED, DECODE, DECODED = 2, 3, 4, 5
"""Types of a message: two requests, each with its answer."""
INVALID = 14
"""The error of a credential that another key made (EMUNGE_CRED_INVALID)."""
# Magic, version, type, number of the retry, bytes of the body.
_HEADER = struct.Struct(">IBBBI")
_MAGIC, _VERSION = 0x00606D4B, 4
# munged takes requests of 2 MiB at most; an answer has a payload of 1 MiB at most.
_LONGEST = 4 << 20


class WireError(Exception):
    """A peer that has closed its connection, is too slow, or sends no message of munge."""


class Message(NamedTuple):
    """A message: its type, and all its bytes, header and body."""

    kind: int
    data: bytes

    @property
    def error(self) -> int:
        """The error number of an answer; 0 is success."""
        return self.data[_HEADER.size]


def receive(peer: socket.socket, deadline: float) -> Message:
    """Return the next message of a peer, until a time of the monotonic clock. Raises WireError."""
    header = _read(peer, _HEADER.size, deadline)
    magic, version, kind, _retry, length = _HEADER.unpack(header)
    if magic != _MAGIC or version != _VERSION or not 0 < length <= _LONGEST:
        raise WireError("not a message of munge")
    return Message(kind, header + _read(peer, length, deadline))


def send(peer: socket.socket, message: Message, deadline: float) -> None:
    """Send a message as it is. Raises WireError."""
    try:
        peer.settimeout(_left(deadline))
        peer.sendall(message.data)
    except OSError as error:
        raise WireError(f"not sent: {error}") from None


def _read(peer: socket.socket, length: int, deadline: float) -> bytes:
    found = b""
    while len(found) < length:
        try:
            peer.settimeout(_left(deadline))
            part = peer.recv(length - len(found))
        except OSError as error:
            raise WireError(f"not received: {error}") from None
        if not part:
            raise WireError("closed by the peer")
        found += part
    return found


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise WireError("too slow")
    return left
