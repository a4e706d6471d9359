# SPDX-License-Identifier: GPL-3.0-or-later
"""Order server: serve claims, seeds, reports, images and media over HTTPS, in one process.

Usage: python3 -m ...provision.order_server SETTINGS.json

SETTINGS: `address`, `port`, `certificate` and `key` (PEM files), `orders` (folder of orders), `served` (folder with `images` and `media`).

  POST /orders/ID/claim    nonce=, serial=, mac=, disk=        200 "claimed ID NONCE"
  POST /orders/ID/seed     nonce=                              200 tar, once
  POST /orders/ID/report   nonce=, result=, reason=, host_key= 200 "reported ID RESULT"
  GET  /images/SHA256.img.zst, /media/HEX.iso                  200, or 206 with Range

A POST has the order's token in `Authorization: Bearer`. A proxy on this host states the address of the machine in `X-Real-IP`. Refusals
are 403 or 409 with one line of reason. The log is a line of JSON per request, without tokens and without the names of media.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .orders import Orders, RefusedError

_PATH = re.compile(r"/orders/([0-9a-f]{32})/(claim|seed|report)")
_FILE = re.compile(r"/(?:images/[0-9a-f]{64}\.img\.zst|media/[0-9a-f]{32,64}\.iso)")
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{0,18})")
_LENGTH = re.compile(r"[0-9]{1,9}")
_LINE = re.compile(r"([a-z_]+)=(.*)")
_MOST, _DRAINED = 8192, 65536
"""Bytes of a request that are read, and that are discarded before a refusal: an answer to an unread request may be lost."""
_PATIENCE = 60
"""Seconds without a byte after which a connection is closed."""


def image_path(sha256: str) -> str:
    """Return the path of an image on the server, and below its folder `served`."""
    return f"/images/{sha256}.img.zst"


def medium_path(name: str) -> str:
    """Return the path of a medium on the server, and below its folder `served`. `name` is random: it is the only key to the medium."""
    return f"/media/{name}.iso"


class OrderServer(ThreadingHTTPServer):
    """HTTPS server; the handshake is done in the thread of the connection, so a silent client delays only itself."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], orders: Orders, served: Path, context: ssl.SSLContext) -> None:
        """Listen at an address. Raises OSError."""
        self.orders, self.served, self.context = orders, served, context
        self._log = threading.Lock()
        super().__init__(address, _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the handshake, and handle the connection."""
        request.settimeout(_PATIENCE)
        try:
            secured = self.context.wrap_socket(request, server_side=True)
        except (OSError, ValueError) as error:
            self.log(
                peer=client_address[0],
                status=0,
                reason=f"no TLS: {getattr(error, 'reason', '') or type(error).__name__}",
            )
            return
        try:
            super().finish_request(secured, client_address)
        except (ConnectionError, socket.timeout, ssl.SSLError) as error:
            self.log(peer=client_address[0], status=0, reason=type(error).__name__)
        finally:
            secured.close()

    def log(self, **row: object) -> None:
        """Print a line of the log."""
        with self._log:
            print(json.dumps(row), flush=True)


class _Handler(BaseHTTPRequestHandler):
    server: OrderServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "bedplate", ""

    def do_POST(self) -> None:
        """Claim, seed or report."""
        try:
            found = _PATH.fullmatch(self.path)
            if not found:
                self._values()
                raise RefusedError(404, "no such path")
            order_id, verb = found.groups()
            scheme, _space, token = self.headers.get("Authorization", "").partition(" ")
            values = self._values()
            folder = self.server.orders.authorize(order_id, token if scheme == "Bearer" else "")
            answer = self._do(folder, verb, values)
        except RefusedError as error:
            self._answer(error.status, f"refused: {error}\n".encode(), str(error))
        except OSError as error:
            self._answer(
                503, b"refused: the server cannot keep its files\n", f"{type(error).__name__}: {error.strerror}"
            )
        else:
            self._answer(200, answer, verb)

    def _do(self, folder: Path, verb: str, values: dict[str, str]) -> bytes:
        orders, nonce = self.server.orders, values.get("nonce", "")
        if verb == "claim":
            return orders.claim(folder, values, self._peer()).encode()
        if verb == "seed":
            return orders.take_seed(folder, nonce)
        reason, key = values.get("reason", ""), values.get("host_key", "")
        return orders.report(folder, values.get("result", ""), reason, nonce, key).encode()

    def _peer(self) -> str:
        """Return the address of the machine. Another host may write any header, so only a proxy on this host states it."""
        address = str(self.client_address[0])
        if not ipaddress.ip_address(address).is_loopback:
            return address
        try:
            return str(ipaddress.ip_address(self.headers.get("X-Real-IP", address)))
        except ValueError:
            return address

    def _values(self) -> dict[str, str]:
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length) or int(length) > _MOST:
            self.rfile.read(min(int(length), _DRAINED) if _LENGTH.fullmatch(length) else 0)
            raise RefusedError(413, "the request has no length, or is too long")
        lines = self.rfile.read(int(length)).decode("utf-8", "replace").splitlines()
        return dict(found.groups() for found in map(_LINE.fullmatch, lines) if found)  # type: ignore[misc]

    def do_GET(self) -> None:
        """Send an image or a medium."""
        self._send_file(body=True)

    def do_HEAD(self) -> None:
        """Send the size of an image or a medium."""
        self._send_file(body=False)

    def _send_file(self, body: bool) -> None:
        if not _FILE.fullmatch(self.path):
            self._answer(404, b"no such file\n", "no such path")
            return
        try:
            stream = (self.server.served / self.path[1:]).open("rb")
        except OSError:
            self._answer(404, b"no such file\n", "no such file")
            return
        with stream:
            size = os.fstat(stream.fileno()).st_size
            first, last, status = 0, size - 1, 200
            if found := _RANGE.fullmatch(self.headers.get("Range", "")):
                first, last, status = int(found[1]), min(int(found[2] or last), last), 206
            if first > last:
                self._answer(416, b"no such range\n", "no such range")
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(last - first + 1))
            if status == 206:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self._note(status, "sent" if body else "size")
            self.end_headers()
            stream.seek(first)
            left = last - first + 1 if body else 0
            while left and (part := stream.read(min(left, 1 << 18))):
                self.wfile.write(part)
                left -= len(part)

    def _answer(self, status: int, data: bytes, note: str) -> None:
        # What a refused request has in its body is not read, so nothing may follow on the connection.
        self.close_connection = self.close_connection or status != 200
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if status == 200 else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        # Who has the answer finds its line in the log.
        self._note(status, note)
        self.end_headers()
        self.wfile.write(data)

    def _note(self, status: int, reason: str) -> None:
        found = _PATH.fullmatch(self.path)
        place = f"{found[2]} {found[1]}" if found else "/".join(self.path.split("/")[:2])[:20]
        self.server.log(peer=self._peer(), method=self.command, path=place, status=status, reason=reason)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the log has its own lines."""


def listen(settings: dict[str, Any]) -> OrderServer:
    """Return a server of these settings, which listens but does not serve yet. Raises OSError, KeyError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings["certificate"], settings["key"])
    orders = Orders(Path(settings["orders"]))
    return OrderServer((settings["address"], settings["port"]), orders, Path(settings["served"]), context)


def main(arguments: list[str]) -> int:
    """Serve until a signal."""
    server = listen(json.loads(Path(arguments[0]).read_text()))
    server.log(listens=server.server_address[0], port=server.server_address[1])
    with server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
