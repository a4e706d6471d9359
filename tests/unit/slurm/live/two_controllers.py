# SPDX-License-Identifier: GPL-3.0-or-later
"""Two real slurmctld on this machine with one StateSaveLocation, each with a host name and an address of its own. No node, no job."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.acting import Controllers
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.takeover import UNIT, Takeover
from tests.unit.slurm.nodes.real_slurm import free_ports

NAMES = ("ctl1", "ctl2")
TIMEOUT = 6  # seconds
_CONF = """\
ClusterName=unit
SlurmctldHost=ctl1(127.0.0.1)
SlurmctldHost=ctl2(127.0.0.2)
SlurmctldPort={port}
CommunicationParameters=NoCtldInAddrAny
SlurmctldTimeout={timeout}
MessageTimeout=5
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/run/slurmctld.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={slurmd} CPUs=2 State=FUTURE
PartitionName=cpu Nodes=ALL Default=YES
"""
# Each slurmctld resolves its own name, and ends a process whose id it finds in its file.
_ALONE = "mount --bind {folder}/hosts /etc/hosts && mount --bind {folder}/run.{name} {folder}/run && hostname {name} && exec "


class TwoControllers:
    """Use as a context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> TwoControllers:
        port, slurmd = free_ports(2)
        for name in ("state", "run", *(f"run.{name}" for name in NAMES)):
            (self.folder / name).mkdir()
        (self.folder / "hosts").write_text("127.0.0.1 localhost ctl1\n127.0.0.2 ctl2\n")
        self.conf.write_text(_CONF.format(folder=self.folder, port=port, slurmd=slurmd, timeout=TIMEOUT))
        try:
            for name in NAMES:  # a standby that starts with its primary waits for the heartbeat file
                self.start(name)
                self.until(lambda: self.controllers().look().is_up(name))  # noqa: B023
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in NAMES:
            self.kill(name)

    def controllers(self) -> Controllers:
        """Return what the modules use."""
        return Controllers(self.conf, "root")

    def is_running(self, name: str) -> bool:
        """Return whether the slurmctld of a controller runs."""
        return name in self._running and self._running[name].poll() is None

    def start(self, name: str) -> None:
        """Start the slurmctld of a controller."""
        script = (
            _ALONE.format(folder=self.folder, name=name) + f"slurmctld -D -f {self.conf} -L {self.folder}/{name}.log"
        )
        with (self.folder / f"{name}.out").open("ab") as output:
            self._running[name] = subprocess.Popen(
                ["unshare", "--uts", "--mount", "sh", "-c", script], stdout=output, stderr=output
            )

    def kill(self, name: str) -> None:
        """Kill the slurmctld of a controller, as when the power goes."""
        if self.is_running(name):
            self._running[name].kill()
            self._running[name].wait()

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Have the slurmctld of a controller answer nothing for a while."""
        self._running[name].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running[name].send_signal(signal.SIGCONT)

    def takeover(self, name: str, check: bool = False) -> Takeover:
        """Return the takeover by a controller, with processes in place of systemd's units."""

        def run(argv: Sequence[str], seconds: float) -> command.Outcome:
            if argv[0] != "systemctl":
                return command.run(argv, seconds, environment={"SLURM_CONF": str(self.conf)})
            assert argv[-1] == UNIT
            if argv[1] == "start":
                self.start(name)
            return command.Outcome(0 if self.is_running(name) else 3, "", "")

        return Takeover(name, self.controllers(), 60, check, run)

    def until(self, holds: Callable[[], bool], seconds: float = 30) -> None:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, [path.read_text()[-600:] for path in sorted(self.folder.glob("ctl*.log"))]
            time.sleep(0.3)
