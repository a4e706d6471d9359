# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric of ibsim for one plane of a plan, in a scratch directory, with the real OpenSM and its tools on it.

Everything has a time, and OpenSM ends before ibsim does: afterwards it would ignore SIGTERM.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from ..core.fabric_model import Plan
from .netfile import netfile, with_guids

# Tool -> Debian's package.
TOOLS = {
    "opensm": "opensm",
    "ibsim": "ibsim-utils",
    "ibsim-run": "ibsim-utils",
    "smpquery": "infiniband-diags",
    "ibnetdiscover": "infiniband-diags",
    "ibdmchk": "ibutils",
}
# What ibsim holds without options: nodes, switches, ports, LIDs.
_HELD = (2048, 256, 13312, 30720)
# Options of opensm.conf that name what it writes.
_WRITTEN = {"log_file": "osm.log", "dump_files_dir": "", "event_db_dump_file": "events", "sa_db_file": "sa"}


class SimulationError(RuntimeError):
    """No simulation could be made, with what to do."""


def missing_tools(tools: Iterable[str] = tuple(TOOLS)) -> str:
    """Return what to install for a simulation; "" when everything is there."""
    absent = [tool for tool in tools if not shutil.which(tool, path=command.SEARCH_PATH)]
    if not absent:
        return ""
    packages = " ".join(sorted({TOOLS[tool] for tool in absent}))
    return f"{', '.join(absent)} not installed, so nothing can be simulated: apt-get install {packages}"


def simulated_plan(plan: Plan) -> Plan:
    """Return a plan with the GUIDs it has in ibsim, which gives an HCA's port its node's GUID + 1: port GUIDs are kept, nodes' are not."""
    full = with_guids(plan)
    for hca in list(full.hcas.values()):
        full.hcas[hca.name] = replace(hca, guid=f"{int(guid_of(hca.port_guid), 16) - 1:016x}")
    return full


def local_conf(text: str, names: Iterable[str], directory: str) -> str:
    """Return opensm.conf with the files `names`, the log and the dumps in a directory; all else is as it was."""
    lines = []
    for line in text.split("\n"):
        option, _blank, value = line.partition(" ")
        base = value.strip().rsplit("/", 1)[-1]
        if option in ("force_log_flush", "daemon"):
            continue
        if option in _WRITTEN:
            line = f"{option} {directory}/{_WRITTEN[option]}"
        elif option.endswith(("_file", "_name")) and base in names:
            line = f"{option} {directory}/{base}"
        lines.append(line)
    # Otherwise a line is in the log up to minutes after it is said.
    return "\n".join([*lines, "force_log_flush TRUE", ""])


class Simulation:
    """Runs commands on the fabric from one HCA; `seconds` is the time of each."""

    def __init__(self, directory: Path, environment: Mapping[str, str], seconds: float) -> None:
        self.directory = directory
        self.environment = environment
        self.seconds = seconds

    def run(self, *argv: str) -> str:
        """Return what a tool prints; SimulationError when it does not end in time."""
        return execute(["ibsim-run", *argv], self.directory, self.environment, self.seconds)

    def opensm(self, conf: str = "opensm.conf") -> tuple[str, str]:
        """Let OpenSM configure the fabric once; return its log and what it printed."""
        log = self.directory / "osm.log"
        dumps = ["-D", "0x43", "--dump_files_dir", str(self.directory)]
        printed = self.run("opensm", "-F", conf, "-o", "-e", "-f", str(log), *dumps)
        return (log.read_text(errors="replace") if log.exists() else ""), printed

    def text(self, name: str) -> str:
        """Return a file of the scratch directory; "" if it is missing."""
        path = self.directory / name
        return path.read_text(errors="replace") if path.exists() else ""


def execute(argv: Sequence[str], directory: Path, environment: Mapping[str, str], seconds: float) -> str:
    """Return the output of a command with any exit status; SimulationError if it does not end in time."""
    outcome = command.run(argv, seconds, cwd=directory, environment=environment)
    if outcome.code is None:
        raise SimulationError(
            f"{' '.join(argv[:2])} did not end in {seconds:g} s; allow more time, as opensm_prove_timeout does"
        )
    return outcome.stdout + outcome.stderr


@contextlib.contextmanager
def simulated(
    plan: Plan,
    directory: Path,
    plane: str | None,
    start: str,
    seconds: float = 120,
    tools: Iterable[str] = tuple(TOOLS),
) -> Iterator[Simulation]:
    """Run ibsim for a plane of a plan that `simulated_plan` made; `start` is the name of the HCA where commands run."""
    if missing := missing_tools(tools):
        raise SimulationError(missing)
    (directory / "net").write_text(netfile(plan, plane=plane))
    name = f"bedplate-{uuid.uuid4().hex[:16]}"
    environment = {
        "IBSIM_SOCKNAME": name, "SIM_HOST": f"H-{plan.hcas[start].guid}",
        "OSM_TMP_DIR": str(directory), "OSM_CACHE_DIR": str(directory),
    }  # fmt: skip
    inside = len(plan.switches) if plan.sharp else 0
    ports = sum(switch.ports + 2 for switch in plan.switches.values()) + 2 * (len(plan.hcas) + inside)
    nodes = len(plan.switches) + len(plan.hcas) + inside
    wanted = (nodes + 16, len(plan.switches) + 16, ports + 64, nodes + 1024)
    sizes = [str(max(pair)) for pair in zip(_HELD, wanted, strict=True)]
    limits = [word for pair in zip(("-N", "-S", "-P", "-L"), sizes, strict=True) for word in pair]
    argv = ["ibsim", "-s", "-n", *limits, "net"]
    with command.Daemon(argv, directory / "ibsim.log", cwd=directory, environment=environment) as simulator:
        _wait(name, simulator, directory, seconds)
        yield Simulation(directory, environment, seconds)


def _wait(name: str, simulator: command.Daemon, directory: Path, seconds: float) -> None:
    """Wait for ibsim's last socket: an earlier tool blocks for ever."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if f"@{name}:out9@" in Path("/proc/net/unix").read_text():
            return
        if simulator.process.poll() is not None:
            said = (directory / "ibsim.log").read_text(errors="replace").strip().split("\n")
            raise SimulationError(f"ibsim refuses the cables of the plan: {'; '.join(said[-3:])}")
        time.sleep(0.02)
    raise SimulationError(f"ibsim did not start in {seconds:g} s; allow more time")
