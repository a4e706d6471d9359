# SPDX-License-Identifier: GPL-3.0-or-later
"""A slurmctld with nodes of a cloud that never starts them, some of them drained, and jobs; no slurmd is needed.

Run as a program inside a root of tests/kit/slurm_releases.py, it prints what the commands of the exporter print there.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter.slurm_answers import SDIAG, SINFO, SQUEUE
from tests.kit.slurm_placement import CONF

NODES = 40
_SECONDS = 30.0


class SlurmFigures:
    """Run slurmctld in a folder, on a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        text = CONF.format(host=socket.gethostname().split(".")[0], directory=folder)
        # PrivateData=cloud: sinfo shows nodes that are off.
        text = text.replace("SlurmctldPort=16817", f"SlurmctldPort={port}\nMessageTimeout=2\nPrivateData=cloud")
        nodes = f"NodeName=gpu[01-{NODES}] CPUs=2 State=CLOUD\n"
        self.conf.write_text(
            f"{text}{nodes}PartitionName=gpu Nodes=ALL Default=YES\nPartitionName=long Nodes=gpu[01-10]\n"
        )
        (folder / "state").mkdir()
        self.environment = {"SLURM_CONF": str(self.conf), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

    def __enter__(self) -> SlurmFigures:
        with (self.folder / "log").open("w") as log:
            self.daemon = subprocess.Popen(
                ["slurmctld", "-D", "-c"], env={**os.environ, **self.environment}, stdout=log, stderr=log
            )
        for words in (
            "scontrol update nodename=gpu[11-12] state=drain reason=fan|is|loud",
            "scontrol update nodename=gpu13 state=down reason=Prolog error",
            "sbatch --output=/dev/null --nodes=2 --wrap=true",
            "sbatch --output=/dev/null --nodes=2 --partition=gpu,long --begin=now+1hour --wrap=true",
        ):
            start, equals, reason = words.partition("reason=")
            argv = start.split() + ([f"{equals}{reason}"] if equals else [])
            self.answer(argv)
        return self

    def __exit__(self, *_error: object) -> None:
        self.daemon.kill()
        self.daemon.wait()

    def answer(self, argv: list[str]) -> str:
        """Return the output of a command, once slurmctld answers."""
        end = time.monotonic() + _SECONDS
        while True:
            done = subprocess.run(
                argv, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return done.stdout
            if time.monotonic() > end:
                raise RuntimeError(f"{argv}: {done.stderr}\n{(self.folder / 'log').read_text()}")
            time.sleep(0.2)

    def settled(self) -> list[str]:
        """Return the output of all commands of the exporter, once the first job has nodes."""
        end = time.monotonic() + _SECONDS
        while not self.answer(["squeue", "--noheader", "--states=CF,R", "--format=%N"]).strip():
            if time.monotonic() > end:
                raise RuntimeError(self.answer(["squeue"]))
            time.sleep(0.2)
        return [self.answer(list(argv)) for argv in (SINFO, SQUEUE, SDIAG)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, SlurmFigures(Path(name)) as slurm:
        json.dump(slurm.settled(), sys.stdout)
