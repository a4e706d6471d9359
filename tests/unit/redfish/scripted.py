# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC that answers with given bytes over TLS, for answers that no well-formed server sends."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Bmc, Limits, Trust
from tests.kit.bmc.certificates import Authority
from tests.kit.bmc.connect import FAST

Part = bytes | float | Callable[[], bytes]
"""Bytes of an answer, their function, or seconds before the next ones."""
ROOT = b'{"SessionService": {"@odata.id": "/redfish/v1/SessionService"}}'


def answer(body: bytes, status: str = "200 OK", length: int | None = None, **headers: str) -> bytes:
    """Return the bytes of an answer; `length` is its Content-Length, if it is not the body's. `_` in names of headers is `-`."""
    size = len(body) if length is None else length
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {size}", *lines, "", ""]).encode() + body


def session(token: str = "token-canary") -> bytes:
    """Return the answer to a login."""
    return answer(b"{}", "201 Created", X_Auth_Token=token, Location="/redfish/v1/SessionService/Sessions/1")


class Scripted:
    """A running BMC. `requests` are its requests, such as `GET /redfish/v1`.

    `connections` counts those that sent one; the next `drops` end before TLS.
    """

    def __init__(self, folder: Path, answers: Mapping[str, list[Part]]) -> None:
        """Answer ServiceRoot, logins and their ends well, and other requests by `answers`: request -> parts, then the connection ends."""
        self.drops = 0
        self.requests: list[str] = []
        self.connections = 0
        own: dict[str, list[Part]] = {
            "GET /redfish/v1/": [answer(ROOT)],
            "POST /redfish/v1/SessionService/Sessions": [session()],
            "DELETE /redfish/v1/SessionService/Sessions/1": [answer(b"", "204 No Content")],
        }
        self._answers, self._ends = {**own, **answers}, set(answers)
        file, self.fingerprint = Authority(folder).issue("scripted", "127.0.0.1")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(file)
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    def bmc(self, **limits: float) -> Bmc:
        """Return its address for the client."""
        port = self._listening.getsockname()[1]
        bounds = Limits(**{**FAST.__dict__, **limits})
        return Bmc("gpu001", "127.0.0.1", Trust(self.fingerprint), Account("root", "x-canary"), port, limits=bounds)

    def close(self) -> None:
        """End it."""
        self._listening.close()

    def _listen(self) -> None:
        while True:
            try:
                plain, _peer = self._listening.accept()
            except OSError:
                return
            if self.drops:
                self.drops -= 1
                plain.close()
                continue
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as sock, sock.makefile("rb") as stream:
                for number, request in enumerate(_requests(stream)):
                    self.connections += number == 0
                    self.requests.append(request)
                    for part in self._answers[request]:
                        if isinstance(part, float):
                            time.sleep(part)
                        else:
                            sock.sendall(part if isinstance(part, bytes) else part())
                    if request in self._ends:
                        return
        except OSError:
            plain.close()


def _requests(stream: BinaryIO) -> Iterator[str]:
    """Yield method and path of each request of a connection."""
    while first := stream.readline():
        size = 0
        while (line := stream.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        stream.read(size)
        yield " ".join(first.decode().split()[:2])


@contextmanager
def scripted(folder: Path, answers: Mapping[str, list[Part]]) -> Iterator[Scripted]:
    """Run such a BMC."""
    running = Scripted(folder, answers)
    try:
        yield running
    finally:
        running.close()
