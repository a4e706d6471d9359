# SPDX-License-Identifier: GPL-3.0-or-later
"""Notify systemd through the socket that it names in NOTIFY_SOCKET; without one, nothing is sent."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

READY, WATCHDOG, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"


def notify(*lines: str) -> bool:
    """Send lines such as READY=1. Return whether they were sent; never blocks."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return False
    # systemd writes @ for the zero byte at the begin of an abstract name.
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one:
        one.setblocking(False)
        one.sendto("\n".join(lines).encode(), address)
        return True
    return False
