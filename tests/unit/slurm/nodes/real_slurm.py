# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Slurm of four nodes, or of given ones, on this machine: a slurmctld, and for each a `slurmd -N`, which a reboot restarts.

A slurmd that starts after a reboot has a clock of its own, by which the kernel has just started: the machine itself does not boot. Its
option -b would report its start as the boot. That time varies by a second from one registration to the next, and slurmctld may take it for
another boot, "Node unexpectedly rebooted" (seen with 22.05.8).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import slurm_commands
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_states import (
    NodeView,
    Snapshot,
    snapshot,
)

NODES = ("n1", "n2", "n3", "n4")
RESUME_TIMEOUT = 8  # seconds
_CONF = """\
ClusterName=unit
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
RebootProgram={folder}/reboot
ResumeTimeout={resume}
SlurmdTimeout=300
SlurmdParameters=config_overrides
ReturnToService=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
{nodes}
PartitionName=gpu Nodes=ALL Default=YES
"""


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that no program uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _just_booted() -> list[str]:
    """Return the start of a command that sees a kernel of less than a second ago.

    slurmctld waits for a boot after its request, in whole seconds of which the daemon rounds its own up: a second earlier is at times too
    early, and the node would not be back.
    """
    seconds = int(float(Path("/proc/uptime").read_text().split()[0]))
    alone = [] if os.geteuid() == 0 else ["--user", "--map-current-user"]
    return ["unshare", *alone, "--time", f"--boottime=-{seconds}", "--fork"]


class RealSlurm:
    """Use as a context. `stay_off` has nodes that do not start again; `late` is the time that a reboot takes, in seconds.

    `options` are further lines of slurm.conf.
    """

    def __init__(self, folder: Path, names: Sequence[str] = NODES, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.names = tuple(names)
        self.options = options
        self.conf = folder / "slurm.conf"
        self.stay_off: set[str] = set()
        self.late = 2.0
        self.boots: list[str] = []
        """Nodes that were rebooted, each time."""
        self.booting: set[str] = set()
        """Nodes whose slurmd a reboot has stopped; slurmctld may not know it yet."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._firmware, daemon=True)

    def __enter__(self) -> RealSlurm:
        ports = free_ports(1 + len(self.names))
        lines = [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2 Sockets=1 CoresPerSocket=2 RealMemory=100"
            for name, port in zip(self.names, ports[1:], strict=True)
        ]
        user = "root" if os.geteuid() == 0 else os.environ.get("USER", "nobody")
        self.conf.write_text(
            "\n".join([*self.options, ""])
            + _CONF.format(ports=ports, folder=self.folder, nodes="\n".join(lines), user=user, resume=RESUME_TIMEOUT)
        )
        (self.folder / "reboots").mkdir()
        program = self.folder / "reboot"
        # Its environment is that of slurmd; since 26.05 it is empty but for the name of the node.
        program.write_text(f'#!/bin/sh\ntouch "{self.folder}/reboots/${{SLURM_NODE_NAME:-$BEDPLATE_NODE}}"\n')
        program.chmod(0o755)
        (self.folder / "state").mkdir()
        self.start_controller()
        for name in self.names:
            (self.folder / f"spool.{name}").mkdir()
            self.start_node(name)
        self._thread.start()
        # A node whose first words were lost answers at the next ping, each 100 s.
        self.until(lambda nodes: all(node.states == {"IDLE"} and node.answers for node in nodes.values()), 150)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for name in (*self.names, "slurmctld"):
            self.kill(name)

    def start_controller(self) -> None:
        """Start slurmctld, with the state that it has."""
        subprocess.run(["slurmctld", "-f", str(self.conf)], check=True, env=self._environment(), capture_output=True)

    def start_node(self, name: str, booted: bool = False) -> None:
        """Start a slurmd; after a reboot it is `late`."""
        if booted:
            time.sleep(self.late)
        argv = [*(_just_booted() if booted else ()), "slurmd", "-N", name, "-f", str(self.conf)]
        subprocess.run(argv, check=True, env={**self._environment(), "BEDPLATE_NODE": name}, capture_output=True)

    def kill(self, name: str) -> None:
        """Kill a daemon, as when the power goes."""
        path = self.folder / f"{name}.pid"
        try:
            pid = int(path.read_text())
            os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            return
        for _ in range(100):
            if not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                break
            time.sleep(0.05)
        path.unlink(missing_ok=True)

    def scontrol(self, *words: str) -> str:
        """Run scontrol as a person does."""
        done = subprocess.run(
            ["scontrol", *words], env=self._environment(), capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def submit(self, node: str, seconds: float) -> str:
        """Submit a job on a node; return its id when it runs."""
        argv = ["sbatch", "--parsable", f"--nodelist={node}", "--output=/dev/null", f"--wrap=sleep {seconds}"]
        done = subprocess.run(
            argv, env=self._environment(), capture_output=True, text=True, check=True, cwd=self.folder
        )
        job = done.stdout.strip()
        self.until(lambda nodes: job in nodes[node].jobs, 150)
        return job

    def srun(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run srun as a person does."""
        return subprocess.run(
            ["srun", *words], env=self._environment(), capture_output=True, text=True, check=False, cwd=self.folder
        )

    def job(self, job: str) -> dict[str, str]:
        """Return what Slurm has of a job."""
        text = self.scontrol("--oneliner", "show", "job", job)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def read(self) -> Snapshot:
        """Query slurmctld, as the module does."""
        return snapshot(self.conf)

    def change(self, argv: list[str]) -> str:
        """Run a command, as the module does."""
        return slurm_commands.change(argv, self.conf)

    def until(self, holds: Callable[[dict[str, NodeView]], bool], seconds: float = 20) -> dict[str, NodeView]:
        """Wait until something holds for the nodes, and return them."""
        end = time.monotonic() + seconds
        while True:
            try:
                nodes = dict(self.read().nodes)
            except Exception:
                nodes = {}
            if nodes and holds(nodes):
                return nodes
            assert time.monotonic() < end, {name: node.shown for name, node in nodes.items()}
            time.sleep(0.3)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "SQUEUE"))}
        return {**kept, "SLURM_CONF": str(self.conf)}

    def _firmware(self) -> None:
        """Switch off what reboots, and on again after a while."""
        while not self._over.wait(0.2):
            for path in sorted((self.folder / "reboots").iterdir()):
                self.booting.add(path.name)
                path.unlink()
                self.boots.append(path.name)
                self.kill(path.name)
                threading.Thread(target=self._boot, args=(path.name,), daemon=True).start()

    def _boot(self, name: str) -> None:
        while name in self.stay_off:
            if self._over.wait(0.2):
                return
        if not self._over.is_set():
            self.start_node(name, booted=True)
            self.booting.discard(name)


def is_there() -> bool:
    """Return whether Slurm's daemons are installed."""
    return all(map(shutil.which, ("slurmctld", "slurmd", "scontrol", "sbatch")))
