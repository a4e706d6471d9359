"""A fabric of ibsim, with OpenSM and the other tools on it. Everything is given a time; OpenSM ends before ibsim does."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import netfile, with_guids

TOOLS = ("opensm", "ibsim", "ibsim-run", "smpquery")


class Simulation:
    """Runs commands on the fabric from one HCA."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.environment = environment

    def run(self, *command: str) -> str:
        """Return what a tool prints."""
        result = subprocess.run(
            ["timeout", "30", "ibsim-run", *command],
            cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=40, check=False,
        )  # fmt: skip
        return result.stdout + result.stderr

    def opensm(self, *arguments: str) -> str:
        """Let OpenSM configure the fabric once, with opensm.conf; return its log."""
        log = self.directory / "osm.log"
        log.unlink(missing_ok=True)
        dumps = ["-D", "0x43", "--dump_files_dir", str(self.directory)]
        self.printed = self.run("opensm", "-F", "opensm.conf", "-o", "-e", "-f", str(log), *dumps, *arguments)
        return log.read_text(errors="replace")


@contextmanager
def simulated(plan: Plan, directory: Path, plane: str | None = None, node: str = "") -> Iterator[Simulation]:
    """Run ibsim for a plane of a plan; `node` is the HCA where commands run."""
    (directory / "net").write_text(netfile(plan, plane=plane))
    hcas = [hca for hca in with_guids(plan).hcas.values() if plane is None or hca.plane == plane]
    start = next(hca for hca in hcas if hca.name == (node or hca.name))
    names = {"IBSIM_SOCKNAME": f"t{os.getpid()}-{directory.name}"[:40], "SIM_HOST": f"H-{start.guid}"}
    environment = {**os.environ, **names, "OSM_TMP_DIR": str(directory), "OSM_CACHE_DIR": str(directory)}
    with (directory / "ibsim.log").open("w") as log:
        simulator = subprocess.Popen(
            ["ibsim", "-s", "-n", "net"], cwd=directory, env=environment, stdout=log, stderr=log
        )
        try:
            _wait(names["IBSIM_SOCKNAME"], simulator)
            yield Simulation(directory, environment)
        finally:
            simulator.kill()
            simulator.wait()


def _wait(name: str, simulator: subprocess.Popen[bytes]) -> None:
    """Wait for ibsim's last socket: a tool that comes before blocks for ever."""
    end = time.monotonic() + 10
    while time.monotonic() < end and simulator.poll() is None:
        if f"@{name}:out9@" in Path("/proc/net/unix").read_text():
            return
        time.sleep(0.02)
    raise AssertionError("ibsim does not start")
