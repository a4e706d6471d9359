# SPDX-License-Identifier: GPL-3.0-or-later
"""Start simulated BMCs in their own process, and steer them from tests.

with Simulation() as simulation:
    gpu001 = simulation.add("gpu001", power="Off", faults={"busy": 2})
    gpu001.state()["power"]
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Simulated:
    """A running BMC: its endpoint, its account, and its simulation."""

    simulation: Simulation
    node: str
    address: str
    port: int
    fingerprint: str
    user: str
    password: str

    @property
    def ca_file(self) -> Path:
        """Return the file of the CA."""
        return self.simulation.ca_file

    def state(self) -> dict[str, Any]:
        """Return the state, as State.snapshot."""
        found: dict[str, Any] = self.simulation.command({"node": self.node})
        return found

    def faults(self, **faults: Any) -> None:
        """Replace the faults, as of spec.Faults; without any, end them."""
        self.simulation.command({"node": self.node, "faults": faults})

    def change(self, **values: Any) -> None:
        """Change attributes of the spec, or of the state (`power`, `bios`), such as `session_limit=1`."""
        self.simulation.command({"node": self.node, "change": values})

    def hang_up(self) -> None:
        """Close all idle connections, as a BMC does after a while."""
        self.simulation.command({"node": self.node, "hang_up": True})

    def forget_log(self) -> None:
        """Forget the requests so far."""
        self.simulation.command({"node": self.node, "forget_log": True})

    def writes(self) -> list[str]:
        """Return the requests that are not reads, without the session's own, as `PATCH /redfish/v1/Systems/1 204`."""
        return [
            one
            for one in self.state()["log"]
            if not one.startswith(("GET ", "HEAD ")) and "/SessionService/" not in one
        ]


class Simulation:
    """A process with simulated BMCs. `--with-parent` ends it if the test process dies."""

    def __init__(self, folder: Path | None = None, *, keeps_log: bool = True) -> None:
        self._temporary = None if folder else tempfile.TemporaryDirectory(prefix="bmc-")
        self.folder = folder or Path(self._temporary.name if self._temporary else ".")
        self.ca_file = self.folder / "ca.pem"
        self._number, self._keeps_log = 0, keeps_log
        self.process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def __enter__(self) -> Simulation:
        command = [sys.executable, "-m", "tests.kit.bmc", str(self.folder), "--with-parent"]
        log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log)
        log.close()
        until = time.monotonic() + 60
        while not (self.folder / "endpoints.json").exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the simulator did not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)
        self._control = socket.socket(socket.AF_UNIX)
        self._control.connect(str(self.folder / "control"))
        self._lines = self._control.makefile("rb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._control:
            self._lines.close()
            self._control.close()
        if self.process:
            self.process.terminate()
            self.process.wait(30)
            assert self.process.stdin
            self.process.stdin.close()
        if self._temporary:
            self._temporary.cleanup()

    def command(self, data: dict[str, Any]) -> Any:
        """Send a command of server.Farm.command, and return its result. Raises RuntimeError."""
        assert self._control
        self._control.sendall(json.dumps(data).encode() + b"\n")
        answer = json.loads(self._lines.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def add(self, node: str = "", **spec: Any) -> Simulated:
        """Start one BMC, with attributes of spec.Spec, on its own loopback address."""
        return self.add_all([{"node": node, **spec}])[0]

    def add_all(self, specs: list[dict[str, Any]]) -> list[Simulated]:
        """Start BMCs. A spec without node or address receives one."""
        full = []
        for spec in specs:
            self._number += 1
            number = self._number
            node = spec.get("node") or f"gpu{number:04d}"
            address = f"127.1.{number // 200}.{number % 200 + 1}"
            full.append({"address": address, **spec, "node": node})
        endpoints = self.command({"add": full, "log": self._keeps_log})
        return [
            Simulated(self, **end, user=spec.get("user", "root"), password=spec.get("password", "factory-canary"))
            for spec, end in zip(full, endpoints, strict=True)
        ]
