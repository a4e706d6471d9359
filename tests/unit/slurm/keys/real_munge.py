# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Slurm whose machines have a munged each: a controller and two nodes, as processes with mount namespaces of their own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome, Runner
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import KeyFiles

CONTROLLER, NODES = "ctl", ("n1", "n2")
MACHINES = (CONTROLLER, *NODES)
_CONF = """\
ClusterName=unit
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp
SlurmdTimeout=300
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=16 Sockets=1 CoresPerSocket=16 RealMemory=100
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=16 Sockets=1 CoresPerSocket=16 RealMemory=100
PartitionName=cpu Nodes=ALL Default=YES
"""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


class MungedSlurm:
    """Use as a context. `machine(name)` gives the files of its key, and what `systemctl` is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._spaces: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> MungedSlurm:
        (self.folder / "slurm.conf").write_text(_CONF.format(folder=self.folder, ports=_free_ports(3)))
        for name in ("run", "state", "out"):
            (self.folder / name).mkdir()
        key = os.urandom(1024)
        try:
            for name in MACHINES:
                self._start_machine(name, key)
            self.on(CONTROLLER, "slurmctld", "-f", f"{self.folder}/slurm.conf")
            for name in NODES:
                self.on(name, "slurmd", "-N", name, "-f", f"{self.folder}/slurm.conf")
            self.until(lambda: self.states() == ["idle"] * len(NODES), 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for path in self.folder.rglob("*.pid"):
            try:
                os.kill(int(path.read_text()), signal.SIGKILL)
            except (OSError, ValueError):
                continue
        for space in self._spaces.values():
            space.kill()
            space.wait()

    def _start_machine(self, name: str, key: bytes) -> None:
        for folder in (f"{name}/run", f"{name}/etc", f"spool.{name}"):
            (self.folder / folder).mkdir(parents=True)
        script = f"mount --bind {self.folder}/{name}/run {self.folder}/run && touch {self.folder}/{name}/up && exec sleep 3600"
        self._spaces[name] = subprocess.Popen(["unshare", "--mount", "sh", "-c", script])
        self.until((self.folder / name / "up").exists, 10)
        files = self.files(name)
        files.path.touch(0o600)
        files.path.write_bytes(key)
        self._start_munged(name)

    def files(self, name: str) -> KeyFiles:
        """Return the key of a machine."""
        return KeyFiles(self.folder / name / "etc/munge.key", self.folder / name / "state")

    def stage(self, key: bytes) -> None:
        """Write a new key beside the old one on all machines."""
        for name in MACHINES:
            staged = self.files(name).staged
            staged.touch(0o600)
            staged.write_bytes(key)

    def on(self, name: str, *argv: str) -> str:
        """Run a command on a machine."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "SBATCH", "SQUEUE"))}
        own["SLURM_CONF"] = f"{self.folder}/slurm.conf"
        command = ["nsenter", f"--target={self._spaces[name].pid}", "--mount", *argv]
        done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, cwd=self.folder)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def systemctl(self, name: str) -> Runner:
        """Return a runner that does to the munged of a machine what systemctl would do."""

        def run(argv: Sequence[str]) -> Outcome:
            _, verb, *words = argv
            if verb == "kill":
                os.kill(self._munged(name), getattr(signal, f"SIG{words[0].removeprefix('--signal=')}"))
                if words[0] == "--signal=KILL":
                    # systemd removes the RuntimeDirectory of a unit that has ended: clients find no socket until it runs again.
                    (self.folder / name / "run/socket").unlink()
            if verb == "restart":
                self._start_munged(name)
            return Outcome(0, "", "")

        return run

    def submit(self, name: str, script: str, *options: str) -> None:
        """Submit a job."""
        path = self.folder / f"{name}.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        output = f"--output={self.folder}/out/{name}.%a"
        self.on(CONTROLLER, "sbatch", output, f"--job-name={name}", *options, str(path))

    def states(self) -> list[str]:
        """Return the states of the nodes, as sinfo shows them."""
        return self.on(CONTROLLER, "sinfo", "--Node", "--noheader", "--format=%T").split()

    def ended(self) -> Counter[tuple[str, str]]:
        """Wait until no job runs; return how many jobs ended by name and exit code, each end of a job counted."""
        self.until(lambda: not self.on(CONTROLLER, "squeue", "--noheader"), 120)
        lines = (self.folder / "jobcomp").read_text().splitlines()
        words = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return Counter((one["Name"], one["ExitCode"]) for one in words)

    def output(self, name: str) -> str:
        """Return what a job has printed."""
        return (self.folder / f"out/{name}.4294967294").read_text()

    def until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "\n".join(path.read_text() for path in self.folder.glob("*.log"))[-4000:]
            time.sleep(0.2)

    def _munged(self, name: str) -> int:
        return int((self.folder / name / "run/munged.pid").read_text())

    def _start_munged(self, name: str) -> None:
        here = self.folder / name
        options = [f"--key-file={here}/etc/munge.key", f"--socket={self.folder}/run/socket", f"--seed-file={here}/seed"]
        self.on(name, "munged", "--force", *options, f"--pid-file={here}/run/munged.pid", f"--log-file={here}/munged.log")


def is_there() -> bool:
    """Return whether the daemons are installed, and this user may give a process another mount table."""
    programs = ("slurmctld", "slurmd", "sbatch", "srun", "munged", "nsenter")
    if not all(map(shutil.which, programs)) or os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
