# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Slurm whose machines have a munged each: a controller and two nodes, as processes with mount namespaces of their own.

Each has its own /etc/munge, /etc/slurm, /run and /var/lib, and a `systemctl` that knows munge.service.
"""

from __future__ import annotations

import os
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
# As systemd: what stops takes the RuntimeDirectory with it, so that clients find no socket until it runs again.
_SYSTEMCTL = """#!/bin/sh
running() { test -f /run/munged.pid && kill -0 "$(cat /run/munged.pid)" 2>/dev/null; }
gone() { while running; do sleep 0.02; done; rm -rf /run/munge; }
start() {
    mkdir -p /run/munge
    munged --force --pid-file=/run/munged.pid --log-file=/run/munged.log --seed-file=/run/seed || exit 1
    awk '{printf "%d", $1 * 1000000}' /proc/uptime > /run/munged.started
}
case "$*" in
"show --property="*)
    echo Id=munge.service
    echo LoadState=loaded
    running && echo ActiveState=active || echo ActiveState=failed
    echo SubState=running
    echo UnitFileState=enabled
    echo Type=forking
    echo InvocationID=1
    echo "ActiveEnterTimestampMonotonic=$(cat /run/munged.started)" ;;
"kill --signal=KILL munge.service") kill -KILL "$(cat /run/munged.pid)"; gone ;;
"kill --signal="*) kill -"${2#--signal=}" "$(cat /run/munged.pid)" ;;
*restart*munge.service) if running; then kill -TERM "$(cat /run/munged.pid)"; kill -CONT "$(cat /run/munged.pid)"; gone; fi; start ;;
*start*munge.service) running || start ;;
esac
"""
# What a machine has of its own: {name} is a folder of the test.
_MACHINE = """set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mount --bind {folder}/{name}/munge /etc/munge
mount --bind {folder}/{name}/slurm /etc/slurm
mount --bind {folder}/systemctl /usr/bin/systemctl
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


class MungedSlurm:
    """Use as a context. `machine(name)` gives the files of its key, and what `systemctl` is there."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self.folder, self._key = folder, key
        self._spaces: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> MungedSlurm:
        conf = _CONF.format(folder=self.folder, ports=_free_ports(3))
        for name in ("state", "out", *(f"spool.{name}" for name in NODES)):
            (self.folder / name).mkdir()
        systemctl = self.folder / "systemctl"
        systemctl.write_text(_SYSTEMCTL)
        systemctl.chmod(0o755)
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
        own = [Path(f"/proc/{space.pid}/root/run/munged.pid") for space in self._spaces.values()]
        for path in (*self.folder.glob("*.pid"), *own):
            try:
                os.kill(int(path.read_text()), signal.SIGKILL)
            except (OSError, ValueError):
                continue
        for space in self._spaces.values():
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
        script = _MACHINE.format(folder=self.folder, name=name)
        self._spaces[name] = subprocess.Popen(["unshare", "--mount", "sh", "-c", script])
        self.until((here / "up").exists, 20)

    def files(self, name: str) -> KeyFiles:
        """Return the key of a machine."""
        return KeyFiles(self.folder / name / "munge/munge.key", self.folder / name / "state")

    def enter(self, name: str) -> list[str]:
        """Return how a command begins that runs on a machine."""
        return ["nsenter", f"--target={self._spaces[name].pid}", "--mount"]

    def stage(self, key: bytes) -> None:
        """Write a new key beside the old one on all machines."""
        for name in MACHINES:
            staged = self.files(name).staged
            staged.touch(0o600)
            staged.write_bytes(key)

    def on(self, name: str, *argv: str) -> str:
        """Run a command on a machine."""
        done = self._run(name, argv)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def runner(self, name: str) -> Runner:
        """Return a runner of commands on a machine."""

        def run(argv: Sequence[str]) -> Outcome:
            done = self._run(name, argv)
            return Outcome(done.returncode, done.stdout, done.stderr)

        return run

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
