"""Which nodes slurmctld gives to jobs: its nodes are of a cloud that never starts them, so that no slurmd is needed.

Run as a program inside a root of tests/kit/slurm_releases.py, it reads cases from stdin and prints the nodes of each job.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kit import slurm_releases

# No node is ever started or switched off.
CONF = """\
ClusterName=placement
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
ResumeProgram=/bin/true
SuspendProgram=/bin/true
SuspendTime=36000
ResumeTimeout=36000
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
"""
_SECONDS = 30.0
# Reasons that only the scheduler gives: it has looked for nodes. The second is that of Slurm 26.05.
_LOOKED = ("Resources", "No suitable topology unit found")


def placed(suite: str, cases: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the nodes of each job of a case, as a hostlist, "" if it waits.

    A case has `files`, whose slurm.conf is added to CONF, and `jobs`, the options of sbatch of each.
    """
    done = slurm_releases.inside(suite, "/mnt/tests/kit/slurm_placement.py", stdin=json.dumps(cases))
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def _place(files: Mapping[str, str], jobs: Sequence[Sequence[str]]) -> list[str]:
    """Start slurmctld, submit the jobs in order and return their nodes."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "state").mkdir()
        for file, text in files.items():
            head = CONF.format(host=socket.gethostname().split(".")[0], directory=directory)
            (directory / file).write_text(head + text if file == "slurm.conf" else text)
        environment = {"SLURM_CONF": str(directory / "slurm.conf"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        log = directory / "log"
        with log.open("w") as output:
            daemon = subprocess.Popen(["slurmctld", "-D", "-c"], env=environment, stdout=output, stderr=output)
        try:
            return [_submit(words, environment, log) for words in jobs]
        finally:
            daemon.terminate()
            daemon.wait()


def _submit(words: Sequence[str], environment: Mapping[str, str], log: Path) -> str:
    number = _answer(["sbatch", "--parsable", "--output=/dev/null", "--wrap=true", *words], environment, log)
    until = time.monotonic() + _SECONDS
    while True:
        nodes, _bar, reason = _answer(
            ["squeue", "--noheader", f"--jobs={number}", "--format=%N|%r"], environment, log
        ).partition("|")
        if nodes or reason in _LOOKED:
            return nodes
        if time.monotonic() > until:
            raise RuntimeError(f"job {number}: {reason}\n{log.read_text()}")
        time.sleep(0.2)


def _answer(command: Sequence[str], environment: Mapping[str, str], log: Path) -> str:
    """Return the answer of a command, once slurmctld answers."""
    until = time.monotonic() + _SECONDS
    while True:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
        if time.monotonic() > until:
            raise RuntimeError(f"{command}: {done.stderr}\n{log.read_text()}")
        time.sleep(0.2)


if __name__ == "__main__":
    json.dump({name: _place(**case) for name, case in json.load(sys.stdin).items()}, sys.stdout)
