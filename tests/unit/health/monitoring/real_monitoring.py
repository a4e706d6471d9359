# SPDX-License-Identifier: GPL-3.0-or-later
"""A Prometheus and an Alertmanager on this machine, with the rules of the role, and text files that are served over HTTP."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Daemon
from tests.unit.health.monitoring.rules_kit import FOLDER


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Texts:
    """Serve a text at each path, as node exporter shows a text file."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        texts = self.texts

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = texts.get(self.path, "").encode()
                self.send_response(200 if self.path in texts else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def __enter__(self) -> Texts:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.server.shutdown()
        self.server.server_close()


class Monitoring:
    """Run both programs with the examples of the role. `seconds`: between two scrapes and two evaluations."""

    def __init__(self, folder: Path, targets: list[dict[str, Any]], seconds: int = 1) -> None:
        self.folder, self.seconds = folder, seconds
        self.prometheus, self.alertmanager = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        (folder / "targets").mkdir()
        (folder / "targets/node.json").write_text(json.dumps(targets))
        edits = {
            "/etc/bedplate/prometheus/rules": str(FOLDER),
            "/etc/bedplate/prometheus": str(folder),
            "localhost:9093": self.alertmanager.removeprefix("http://"),
            "interval: 30s": f"interval: {seconds}s",
            # The examples are in the folder of the rules.
            "*.yml": "[ar]*[gs].yml",
        }
        self._write("prometheus", edits)
        self._write("alertmanager", {"group_wait: 10s": f"group_wait: {min(10, seconds)}s"})
        self._stack = ExitStack()

    def _write(self, name: str, edits: Mapping[str, str]) -> None:
        text = (FOLDER / f"{name}.example.yml").read_text()
        for old, new in edits.items():
            assert old in text, old
            text = text.replace(old, new)
        (self.folder / f"{name}.yml").write_text(text)

    def __enter__(self) -> Monitoring:
        self._start(
            "prometheus-alertmanager",
            f"--config.file={self.folder}/alertmanager.yml",
            f"--storage.path={self.folder}/alerts",
            f"--web.listen-address={self.alertmanager.removeprefix('http://')}",
            "--cluster.listen-address=",
        )
        self._start(
            "prometheus",
            f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address={self.prometheus.removeprefix('http://')}",
        )
        for url in (self.alertmanager, self.prometheus):
            self.until(lambda url=url: self._is_ready(url), 30)  # type: ignore[misc]
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _start(self, *argv: str) -> None:
        self._stack.enter_context(Daemon(argv, self.folder / f"{argv[0]}.log", cwd=self.folder))

    def _is_ready(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def until(self, holds: Callable[[], object], seconds: float) -> float:
        """Wait until a condition holds; return the seconds. AssertionError: it does not in time."""
        begin = time.monotonic()
        while not holds():
            logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
            assert time.monotonic() - begin < seconds, logs
            time.sleep(0.1)
        return time.monotonic() - begin

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an expression."""
        words = urllib.parse.urlencode({"query": expression})
        found = self._json(f"{self.prometheus}/api/v1/query?{words}")["data"]["result"]
        return list(found)

    def alerts(self, name: str) -> list[dict[str, Any]]:
        """Return the alerts of a name that Alertmanager has, suppressed ones too."""
        words = urllib.parse.urlencode({"filter": f'alertname="{name}"'})
        return list(self._json(f"{self.alertmanager}/api/v2/alerts?{words}"))

    @staticmethod
    def _json(url: str) -> Any:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)
