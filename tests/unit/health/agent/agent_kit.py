# SPDX-License-Identifier: GPL-3.0-or-later
"""A node for tests of the agent: injected clock, log, probes and commands; and the real process in a tree of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import agent_loop, state_file
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.agent_settings import (
    AgentPaths,
    AgentSettings,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.clock import Moment
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.evidence import EvidenceStore
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.kernel_reader import KernelReader
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.publisher import NodePublisher, Outputs
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.slurm_report import SlurmReporter
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.verdict_file import VerdictFiles
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    KernelEvent,
    NodeProfile,
    Reading,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_records import record_line
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_child import Ended, ProbeChildren
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import verdict_line
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import Verdict

REPOSITORY = Path(__file__).parents[4]
PROGRAM = "ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.node_health"
BOOT = "5f2c1a90-0000-4000-8000-123456789abc"
GPU = "0000:3b:00.0"
NOON = 1_790_000_000.0
XID_94 = "NVRM: Xid (PCI:0000:3b:00): 94, pid=4242, name=train, Contained: CE User Channel (0x9). RST: No, D-RST: No"
XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@dataclass
class FakeProbes:
    """Probes that answer after `seconds`, in the clock of the test; `hung` kinds never end before `deadline`."""

    readings_at: Callable[[float], Sequence[Reading]]
    seconds: float = 1.0
    begun: list[float] = field(default_factory=list)
    ended_at: float | None = None
    last: tuple[Reading, ...] | None = None

    @property
    def is_running(self) -> bool:
        return self.ended_at is not None

    @property
    def is_answered(self) -> bool:
        return self.last is not None

    def begin(self, uptime: float, interval: float) -> None:
        if self.ended_at is None:
            self.begun.append(uptime)
            self.ended_at = uptime + self.seconds

    def collect(self, uptime: float) -> bool:
        if self.ended_at is None or uptime < self.ended_at:
            return False
        self.ended_at, self.last = None, tuple(self.readings_at(uptime))
        return True

    def readings(self) -> tuple[Reading, ...]:
        return self.last or ()

    def fresh(self) -> tuple[Reading, ...]:
        return self.last or ()

    def ages(self, uptime: float) -> Mapping[str, float]:
        return {"fake": 0.0}


@dataclass
class FakeSlurm:
    """A slurmctld with one node: commands end at the next poll. `extra`: the node's Extra. `is_down`: no command succeeds."""

    extra: str = ""
    is_down: bool = False
    is_hung: bool = False
    calls: list[tuple[str, ...]] = field(default_factory=list)
    waiting: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def start(self, kind: str, argv: Sequence[str], seconds: float) -> bool:
        if self.is_hung:
            return False
        self.calls.append(tuple(argv))
        self.waiting.append((kind, tuple(argv)))
        return True

    def poll(self) -> list[Ended]:
        ended, self.waiting = [self._end(*one) for one in self.waiting], []
        return ended

    def _end(self, kind: str, argv: tuple[str, ...]) -> Ended:
        if self.is_down:
            return Ended(kind, 1, b"", "slurm_load_node error: Unable to contact slurm controller (connect failure)")
        if argv[1] == "show":
            return Ended(kind, 0, f"NodeName={argv[3]} Arch=x86_64\n   State=IDLE\n   Extra={self.extra}\n\n".encode())
        self.extra = argv[3].partition("=")[2]
        return Ended(kind, 0, b"")

    @property
    def updates(self) -> list[tuple[str, ...]]:
        return [one for one in self.calls if one[1] == "update"]


class NoJobs:
    """A node on which job 4711 runs."""

    def running(self) -> tuple[int, ...]:
        return (4711,)

    def of_event(self, event: KernelEvent, now: Moment) -> int | None:
        return 4711


class Simulation:
    """An agent whose clock the test moves. Kernel log and files are real; probes and Slurm are not."""

    def __init__(self, folder: Path, probes: FakeProbes, profile: NodeProfile, *, uptime: float = 1000.0) -> None:
        self.folder, self.probes, self.profile = folder, probes, profile
        self.uptime, self.time = uptime, NOON
        self.slurm = FakeSlurm()
        self.kmsg = folder / "kmsg"
        self.kmsg.write_bytes(b"")
        self.sequence = 0
        self.steps = 0
        self.start()

    def start(self) -> None:
        """Start an agent, as after a restart of the unit."""
        settings = AgentSettings("gpu001", self.profile, textfile="/var/metrics/bedplate_health.prom")
        self.paths = AgentPaths(self.folder)
        (self.folder / "var/metrics").mkdir(parents=True, exist_ok=True)
        memory = state_file.load(self.paths.state / "state.json", BOOT)
        log = KernelReader(self.kmsg, memory.log.sequence, lost=memory.log.lost)
        children = ProbeChildren(self.folder)
        children.start = lambda *_arguments, **_more: False  # type: ignore[method-assign]
        outputs = Outputs(
            VerdictFiles(self.paths.run),
            EvidenceStore(self.paths.state / "evidence", 30, 2 << 30),
            SlurmReporter("gpu001", self.slurm, sent=memory.report),
            children,
            log,
        )
        self.publisher = NodePublisher(settings, self.paths, memory, outputs)
        self.agent = agent_loop.Agent(settings, BOOT, memory, log, self.probes, NoJobs(), self.publisher)

    def log(self, text: str, uptime: float | None = None) -> None:
        """Append a record to the kernel's log."""
        self.sequence += 1
        with self.kmsg.open("ab") as stream:
            stream.write(record_line(self.sequence, self.uptime if uptime is None else uptime, text))

    def run(self, seconds: float, events: Mapping[float, str] | None = None) -> None:
        """Let time pass: the agent steps when it must, or when a record arrives. `events`: seconds from now -> text of a record."""
        end = self.uptime + seconds
        todo = sorted((self.uptime + after, text) for after, text in (events or {}).items())
        while self.uptime < end:
            self.agent.step(Moment(self.uptime, self.time))
            self.steps += 1
            pause = max(self.agent.next_step(Moment(self.uptime, self.time)), 0.01)
            following = min(self.uptime + pause, end, *(at for at, _text in todo[:1]))
            self.time += following - self.uptime
            self.uptime = following
            while todo and todo[0][0] <= self.uptime:
                self.log(todo.pop(0)[1])

    @property
    def verdict(self) -> Verdict:
        return verdict_line.parse((self.paths.run / "verdict").read_text())

    @property
    def details(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.paths.run / "verdict.json").read_bytes())
        return data

    @property
    def report(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.slurm.extra or "{}").get("bp", {})
        return data

    @property
    def bundles(self) -> list[Path]:
        folder = self.paths.state / "evidence"
        return sorted(one for one in folder.iterdir() if one.is_dir()) if folder.exists() else []


class Node:
    """The real program in a tree of files, with a stub of scontrol that records its calls."""

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.root, self.kmsg, self.calls = folder / "root", folder / "kmsg", folder / "calls"
        self.settings, self.bin = folder / "health.json", folder / "bin"
        self.write("proc/sys/kernel/random/boot_id", f"{BOOT}\n")
        self.write("proc/self/mountinfo", "")
        self.settings.write_text(json.dumps({"node": "gpu001", "interval": 2, **(settings or {})}))
        self.kmsg.write_bytes(b"")
        self.bin.mkdir()
        self._stub()

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def _stub(self) -> None:
        """Write a scontrol that keeps one Extra in a file."""
        extra = self.bin.parent / "extra"
        script = (
            "#!/bin/sh\n"
            f'printf "%s\\n" "$*" >> {self.calls}\n'
            f'if [ "$1" = show ]; then printf "NodeName=gpu001\\n   Extra=%s\\n" "$(cat {extra} 2>/dev/null)"; fi\n'
            f'if [ "$1" = update ]; then printf "%s" "${{3#extra=}}" > {extra}; fi\n'
        )
        path = self.bin / "scontrol"
        path.write_text(script)
        path.chmod(0o755)

    @property
    def extra(self) -> dict[str, Any]:
        path = self.bin.parent / "extra"
        data: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return data

    @property
    def verdict_file(self) -> Path:
        return self.root / "run/bedplate/health/verdict"

    def verdict(self) -> Verdict | None:
        try:
            return verdict_line.parse(self.verdict_file.read_text())
        except OSError:
            return None

    def log(self, sequence: int, text: str) -> None:
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
        with self.kmsg.open("ab") as stream:
            stream.write(record_line(sequence, uptime, text))

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-m", PROGRAM, str(self.settings), "--kmsg", str(self.kmsg), "--root", str(self.root)]

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.bin}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY / "collections")}

    @contextmanager
    def running(self, *arguments: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Run the agent, and kill it at the end."""
        environment = {**self.environment, **more.pop("environment", {})}
        process = subprocess.Popen([*self.argv, *arguments], env=environment, stderr=subprocess.PIPE, **more)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def wait_for(condition: Callable[[], bool], seconds: float = 15.0) -> float:
    """Wait until a condition is true, and return the seconds. AssertionError: it stays false."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, f"not true after {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - start
