# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve figures of Slurm to Prometheus, for releases before 25.11, which have no exporter.

Usage: python3 -m ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter.slurm_exporter --listen ADDRESS:PORT
[--interval SECONDS]. Without an address it listens on all addresses. The only path is /metrics.

One set of sinfo, squeue and sdiag runs in each interval, however many scrapes there are. A scrape reads the text of the last set, so a
hung slurmctld delays no scrape: bedplate_slurm_up is 0 then, and bedplate_slurm_last_success_timestamp shows the age of the figures.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

from ..report.prometheus_text import CONTENT_TYPE
from .slurm_cache import SlurmCache

INTERVAL = 60.0
"""Seconds between two sets of calls."""
MOST_CONNECTIONS = 16
_CLIENT_SECONDS = 10.0
# A user's variables would change what the commands print: SQUEUE_STATES, for example, hides jobs.
_VARIABLES = ("SINFO_", "SQUEUE_", "SLURM_")


class _Handler(BaseHTTPRequestHandler):
    """Answer GET and HEAD of /metrics."""

    server: MetricsServer
    server_version = "bedplate"
    sys_version = ""
    timeout = _CLIENT_SECONDS

    def do_GET(self) -> None:
        """Send the metrics."""
        body = self._head()
        if body:
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        """Send the headers of the metrics."""
        self._head()

    def _head(self) -> bytes:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "the only path is /metrics")
            return b""
        body = self.server.cache.text.encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return body

    def log_message(self, *_arguments: Any) -> None:
        """Write no line for each scrape."""


class MetricsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serve a cache. More than MOST_CONNECTIONS at a time are closed at once: a client that sends nothing must not fill the unit."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], cache: SlurmCache) -> None:
        """Listen; "" is all addresses, of IPv6 too where the machine has it. OSError: the address is not free."""
        self.cache = cache
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        host, port = address
        both = not host and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
        self._both = both
        super().__init__(("::" if both else host, port), _Handler)

    def server_bind(self) -> None:
        """Bind to both families, without a look-up of this machine's name."""
        if self._both:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or close the connection if all threads are in use."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then free the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that ended its connection."""


def address_of(text: str) -> tuple[str, int]:
    """Return address and port. ValueError: not ADDRESS:PORT, :PORT or [IPV6]:PORT.

    >>> address_of(":9341"), address_of("[::1]:9341")
    (('', 9341), ('::1', 9341))
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= 65535 or (":" in host and not host.startswith("[")):
        raise ValueError(f"{text!r}; expected ADDRESS:PORT, :PORT or [IPV6]:PORT")
    return host.strip("[]"), int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Return the exit status."""
    parser = argparse.ArgumentParser(description="Serve figures of Slurm to Prometheus.")
    parser.add_argument("--listen", type=address_of, required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--interval", type=float, default=INTERVAL, metavar="SECONDS")
    options = parser.parse_args(arguments)
    for name in [name for name in os.environ if name.startswith(_VARIABLES) and name != "SLURM_CONF"]:
        del os.environ[name]
    cache = SlurmCache(report=lambda line: print(line, file=sys.stderr, flush=True))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopped.set())
    with MetricsServer(options.listen, cache) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"listening on port {server.server_address[1]}", file=sys.stderr, flush=True)
        # The commands take their time: the next set is due an interval after the begin of this one, and never at once.
        while not stopped.is_set():
            begin = time.monotonic()
            cache.refresh()
            stopped.wait(max(1.0, options.interval - (time.monotonic() - begin)))
        server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
