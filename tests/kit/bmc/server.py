# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve simulated BMCs over TLS from one asyncio loop, and a control socket by which tests read and change them."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from pathlib import Path
from typing import Any

from tests.kit.bmc.certificates import Authority
from tests.kit.bmc.refused import Reply
from tests.kit.bmc.replies import Request, reply
from tests.kit.bmc.spec import Spec, faults_of, spec_of
from tests.kit.bmc.state import State

_REASON = "Simulated"
_LINGER_S = 2.0


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive over one connection to a BMC."""

    def __init__(self, state: State) -> None:
        self._state, self._data = state, bytearray()
        self._transport: asyncio.Transport | None = None
        self._is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._state.connections.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport:
            self._state.connections.discard(self._transport)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._next()

    def _next(self) -> None:
        if self._is_busy or not self._transport:
            return
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = self._data[:end].decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        size = int(headers.get("content-length", 0))
        if len(self._data) < end + 4 + size:
            return
        body = bytes(self._data[end + 4 : end + 4 + size])
        del self._data[: end + 4 + size]
        method, _, rest = first.partition(" ")
        path, _, query = rest.partition(" ")[0].partition("?")
        request = Request(method, path.rstrip("/"), query.replace("%24", "$"), headers, body)
        self._is_busy = True
        faults = self._state.spec.faults
        is_slow = not faults.paths or any(one in request.path for one in faults.paths)
        delay = self._state.spec.latency_s + (faults.slow_s if is_slow else 0.0)
        if delay:
            asyncio.get_running_loop().call_later(delay, self._answer, request)
        else:
            self._answer(request)

    def _answer(self, request: Request) -> None:
        state = self._state
        answer = reply(state, request)
        state.requests[request.method] += 1
        if state.keeps_log:
            state.log.append(f"{request.method} {request.path} {answer.status}")
        if not self._transport:
            return
        if answer.is_cut:
            self._transport.abort()
            return
        text = _bytes(request, answer, state.spec.faults.gzip)
        if answer.drips:
            self._drip(text)
            return
        self._transport.write(text)
        self._is_busy = False
        if request.headers.get("connection", "").lower() == "close":
            # A close at once can end the connection before the answer is read.
            asyncio.get_running_loop().call_later(_LINGER_S, self._transport.close)
        else:
            self._next()

    def _drip(self, text: bytes) -> None:
        if self._transport and text:
            self._transport.write(text[:1])
            asyncio.get_running_loop().call_later(0.2, self._drip, text[1:])


def _bytes(request: Request, answer: Reply, packs: bool) -> bytes:
    content = answer.content()
    lines = [f"HTTP/1.1 {answer.status} {_REASON}", "OData-Version: 4.0", "Cache-Control: no-cache"]
    if packs and content:
        content = gzip.compress(content, 1)
        lines.append("Content-Encoding: gzip")
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    if content:
        lines.append("Content-Type: application/json")
    lines.append(f"Content-Length: {len(content)}")
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    return head if request.method == "HEAD" else head + content


class Farm:
    """Many BMCs on one loop. `folder` has the CA as ca.pem, and certificates."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.states = folder, dict[str, State]()
        self._good, self._other = Authority(folder), Authority(folder, "other-ca")
        self._servers: list[asyncio.Server] = []

    async def add(self, spec: Spec, keeps_log: bool = True) -> dict[str, Any]:
        """Start a BMC, and return its endpoint: node, address, port, fingerprint."""
        loop = asyncio.get_running_loop()
        authority = self._other if spec.certificate == "other-ca" else self._good
        named = "127.255.255.254" if spec.certificate == "other-name" else spec.address
        file, fingerprint = authority.issue(spec.node, named, expired=spec.certificate == "expired")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        context.num_tickets = 0
        state = State(spec, loop.call_later, loop.call_soon_threadsafe, fingerprint, keeps_log=keeps_log)
        state.certificate = file.read_text().partition("-----BEGIN PRIVATE KEY")[0]

        def serve(pem: bytes) -> None:
            file.write_bytes(pem)
            context.load_cert_chain(file)

        state.serve = serve
        server = await loop.create_server(lambda: Connection(state), spec.address, spec.port, ssl=context, backlog=64)
        spec.port = server.sockets[0].getsockname()[1]
        self._servers.append(server)
        self.states[spec.node] = state
        return {"node": spec.node, "address": spec.address, "port": spec.port, "fingerprint": fingerprint}

    async def command(self, data: dict[str, Any]) -> Any:
        """Obey one command of the control socket: add, read, faults or change."""
        if "add" in data:
            return [await self.add(spec_of(one), data.get("log", True)) for one in data["add"]]
        state = self.states[data["node"]]
        if "faults" in data:
            state.spec.faults = faults_of(data["faults"])
        for name, value in data.get("change", {}).items():
            setattr(state.spec if hasattr(state.spec, name) and name != "power" else state, name, value)
        if data.get("hang_up"):
            state.hang_up()
            await asyncio.sleep(0.05)
        if data.get("forget_log"):
            state.log.clear()
            state.requests.clear()
        return state.snapshot()

    async def serve_control(self, path: Path) -> asyncio.Server:
        """Answer commands, a line of JSON each, on a Unix socket."""

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                try:
                    found: dict[str, Any] = {"result": await self.command(json.loads(line))}
                except Exception as error:
                    found = {"error": f"{type(error).__name__}: {error}"}
                writer.write(json.dumps(found).encode() + b"\n")
                await writer.drain()
            writer.close()

        return await asyncio.start_unix_server(talk, path, limit=1 << 26)

    def close(self) -> None:
        """End all machines behind the BMCs."""
        for state in self.states.values():
            state.close()
