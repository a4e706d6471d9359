# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Slurm whose machines have a munged each: a controller and two nodes, as processes with mount namespaces of their own.

Each has its own /etc/munge, /etc/slurm, /run, /var/lib and unit files, and the `systemctl` of small_systemctl.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import KeyFiles
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part

CONTROLLER, NODES = "ctl", ("n1", "n2")
MACHINES = (CONTROLLER, *NODES)
NEXT_UNITS = ("bedplate-munge-next.service", "bedplate-munge-pair.service")
_SYSTEMCTL = Path(__file__).with_name("small_systemctl.py")
_CONF = """\
ClusterName=unit
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
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
# What a machine has of its own: {name} is a folder of the test.
_MACHINE = """set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /usr/local/lib
mount -t tmpfs tmpfs /etc/systemd/system
mount --bind {folder}/{name}/munge /etc/munge
mount --bind {folder}/{name}/slurm /etc/slurm
mount --bind {systemctl} /usr/bin/systemctl
systemctl start munge.service
touch {folder}/{name}/up
exec sleep 3600
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


def _processes_of(pid: int) -> list[int]:
    """Return the processes that have the mount namespace of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/ns/mnt"):
        with suppress(OSError):
            if path.readlink() == Path(f"/proc/{pid}/ns/mnt").readlink():
                found.append(int(path.parts[2]))
    return found


class MungedSlurm:
    """Use as a context. `files(name)` gives the key of a machine, `root(name)` its files."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self.folder, self._key = folder, key
        self._spaces: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> MungedSlurm:
        conf = _CONF.format(folder=self.folder, ports=_free_ports(3))
        for name in ("state", "out", *(f"spool.{name}" for name in NODES)):
            (self.folder / name).mkdir()
        try:
            for name in MACHINES:
                self._start_machine(name, conf)
            self.on(CONTROLLER, "slurmctld")
            for name in NODES:
                self.on(name, "slurmd", "-N", name)
            self.until(lambda: self.states() == ["idle"] * len(NODES), 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for path in self.folder.glob("*.pid"):
            with suppress(OSError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)
        for space in self._spaces.values():
            for pid in _processes_of(space.pid):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            space.kill()
            space.wait()

    def _start_machine(self, name: str, conf: str) -> None:
        here = self.folder / name
        for folder in ("munge", "slurm"):
            (here / folder).mkdir(parents=True)
        (here / "slurm/slurm.conf").write_text(conf)
        files = self.files(name)
        files.path.touch(0o600)
        files.path.write_bytes(self._key)
        script = _MACHINE.format(folder=self.folder, name=name, systemctl=_SYSTEMCTL)
        self._spaces[name] = subprocess.Popen(["unshare", "--mount", "sh", "-c", script])
        self.until((here / "up").exists, 20)

    def files(self, name: str) -> KeyFiles:
        """Return the key of a machine."""
        return KeyFiles(self.folder / name / "munge/munge.key", self.folder / name / "state")

    def enter(self, name: str) -> list[str]:
        """Return how a command begins that runs on a machine."""
        return ["nsenter", f"--target={self._spaces[name].pid}", "--mount"]

    def root(self, name: str) -> Path:
        """Return the root directory of a machine."""
        return Path(f"/proc/{self._spaces[name].pid}/root")

    def stage(self, name: str, key: bytes) -> None:
        """Write a new key beside the old one on a machine, and start a second munged with it, by the units of the role."""
        staged = self.files(name).staged
        staged.touch(0o600)
        staged.write_bytes(key)
        part = render_part("slurm", "munge_pair", {"manager": "apt"})
        for entry in part["files"]:
            path = self.root(name) / entry["path"][1:]
            if "content" in entry:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(entry["content"])
        self.on(name, "systemctl", "start", *NEXT_UNITS)

    def encode(self, name: str, key: str) -> None:
        """Make credentials on a machine with the `old` or the `new` key."""
        (self.folder / name / "munge/encodes").write_text(f"{key}\n")

    def finish(self, name: str) -> None:
        """Replace the old key on a machine, and stop the second munged."""
        files = self.files(name)
        with files.locked():
            files.put()
        self.on(name, "systemctl", "restart", "munge.service")
        self.on(name, "systemctl", "stop", *reversed(NEXT_UNITS))
        shutil.rmtree(self.root(name) / "etc/systemd/system/munge.service.d")

    def on(self, name: str, *argv: str) -> str:
        """Run a command on a machine."""
        done = self._run(name, argv)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def _run(self, name: str, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "SBATCH", "SQUEUE"))}
        return subprocess.run(
            [*self.enter(name), *argv], env=own, capture_output=True, text=True, check=False, cwd=self.folder
        )

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
