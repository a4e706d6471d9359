# SPDX-License-Identifier: GPL-3.0-or-later
"""A bridge of this machine with a tap for a virtual machine and an interface for a neighbour; nothing else is on it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

BRIDGE, TAP, NEIGHBOUR, _PEER = "bedboot0", "bedboot-t", "bedboot-n", "bedboot-p"
HOST, MACHINE, NETWORK = "10.87.9.1", "10.87.9.21/24", "10.87.9.0/24"


def _ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=True, timeout=30)


def _remove() -> None:
    for name in (BRIDGE, TAP, NEIGHBOUR):
        _ip("link", "delete", name, check=False)


@contextmanager
def bridge() -> Iterator[None]:
    """Make the bridge, until the end of the context."""
    _remove()
    try:
        _ip("link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
        _ip("address", "add", f"{HOST}/24", "dev", BRIDGE)
        _ip("tuntap", "add", TAP, "mode", "tap")
        _ip("link", "add", NEIGHBOUR, "type", "veth", "peer", "name", _PEER)
        for name in (TAP, _PEER):
            _ip("link", "set", name, "master", BRIDGE)
        for name in (BRIDGE, TAP, _PEER, NEIGHBOUR):
            _ip("link", "set", name, "up")
        yield
    finally:
        _remove()
