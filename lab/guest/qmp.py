# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's monitor (QMP): send commands to a virtual machine, and read its events until it ends."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.shell import LabError

SOCKET = "qmp"
"""Name of the socket in the folder of a machine. QEMU accepts one client at a time."""
_CONNECT_S = 20.0


class Monitor:
    """A connection to the monitor of a machine in a folder. One thread reads `messages`; any thread may `send`."""

    def __init__(self, folder: Path) -> None:
        """Connect. LabError: no monitor within some seconds."""
        deadline = time.monotonic() + _CONNECT_S
        while True:
            self._socket = socket.socket(socket.AF_UNIX)
            try:
                self._socket.connect(str(folder / SOCKET))
                break
            except OSError as error:
                self._socket.close()
                if time.monotonic() > deadline:
                    raise LabError(f"{folder / SOCKET}: QEMU's monitor does not answer: {error}") from None
                time.sleep(0.1)
        self._lock = threading.Lock()
        self.send("qmp_capabilities")

    def send(self, command: str, **arguments: object) -> None:
        """Send a command; its answer is one of the messages. A machine that has ended ignores it."""
        text = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})
        with self._lock:
            try:
                self._socket.sendall(text.encode() + b"\n")
            except OSError:
                return

    def messages(self, seconds: float) -> Iterator[dict[str, Any]]:
        """Yield greeting, answers and events until the machine ends, and {} after each `seconds` without one."""
        self._socket.settimeout(seconds)
        data = b""
        while True:
            try:
                part = self._socket.recv(65536)
            except TimeoutError:
                yield {}
                continue
            except OSError:
                return
            if not part:
                return
            *lines, data = (data + part).split(b"\n")
            yield from (json.loads(line) for line in lines if line.strip())

    def close(self) -> None:
        """Close the connection; who reads `messages` sees their end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
