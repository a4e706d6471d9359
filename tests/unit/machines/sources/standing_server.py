"""An HTTPS server on this machine that answers with documented shapes, and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.kit.bmc.certificates import Authority

Answer = Callable[[str, Mapping[str, list[str]], Mapping[str, str]], tuple[int, Any]]
"""Path, query and headers of a request -> status and JSON, text or bytes."""


@dataclass
class Standing:
    """A running server; `answer` may be replaced at any time."""

    answer: Answer
    url: str = ""
    ca: str = ""
    requests: list[tuple[str, dict[str, list[str]], dict[str, str]]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [path for path, _query, _headers in self.requests]


@contextmanager
def standing(folder: Path, *, expired: bool = False) -> Iterator[Standing]:
    """Run a server with a certificate of its own CA."""
    authority = Authority(folder)
    certificate, _digest = authority.issue("server", "127.0.0.1", expired=expired)
    state = Standing(lambda *_request: (404, "no answer"), ca=str(authority.file))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query, headers = parse_qs(parts.query), dict(self.headers.items())
            state.requests.append((parts.path, query, headers))
            status, data = state.answer(parts.path, query, headers)
            body = data if isinstance(data, bytes) else (data if isinstance(data, str) else json.dumps(data)).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", str(data))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            return

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_arguments: Any) -> None:
            """Say nothing of clients that refuse the certificate."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        state.url = f"https://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
