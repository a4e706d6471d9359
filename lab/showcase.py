# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster at work: Slurm's reports, a job on two nodes that shows which GPUs it was given, and the GPU software of a node."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from lab import ssh
from lab.machines import Plan
from lab.shell import LabError, capture, say

PARTITION = "gpu"
JOB = ("srun", "--partition", PARTITION, "--nodes", "2", "--ntasks-per-node", "1", "--gres", "gpu:1", "--time", "2")
PATIENCE = 60


def show(lab: str, plan: Plan) -> None:
    """Print sinfo, the topology and the output of a two-node GPU job, and check that output."""
    controller = plan.controller
    _wait_for_idle(lab, controller)
    for command in (["sinfo"], ["scontrol", "show", "topology"]):
        say("slurm", shlex.join(command))
        print(_on(lab, controller, command), flush=True)
    probe = (Path(__file__).parent / "probe.py").read_text()
    say("slurm", shlex.join(JOB) + " ...")
    output = _on(lab, controller, [*JOB, "python3", "-c", probe])
    print(output, flush=True)
    gpus = {machine.name: machine.gpus for machine in plan.machines}
    if problems := check(output, gpus):
        raise LabError("The job ran, but its GPUs are not what Slurm should give it:\n" + "\n".join(problems))
    say("slurm", "each node gave the job one GPU (ENXIO: allowed, no driver here) and denied the others (EPERM)")
    _show_stack(lab, plan)


def _show_stack(lab: str, plan: Plan) -> None:
    """Print the GPU software of one node: what is held in which version, and the module that was compiled there."""
    node = next((machine.name for machine in plan.machines if machine.compiles), "")
    if node:
        say("gpu", f"{node}: dpkg-query --show $(apt-mark showhold); dkms status   (stand-ins for NVIDIA's packages)")
        shown = _on(lab, node, ["sh", "-c", "dpkg-query --show $(apt-mark showhold) && dkms status"])
        print(shown, flush=True)


def check(output: str, gpus: dict[str, int]) -> list[str]:
    """Compare the job's lines with what isolation must look like: one GPU answers ENXIO, all others EPERM."""
    lines = [line.split() for line in output.splitlines() if "CUDA_VISIBLE_DEVICES=" in line]
    problems = [] if len(lines) == 2 else [f"the job should have printed 2 lines, not {len(lines)}"]
    for node, _visible, *answers in lines:
        got = sorted(answer.partition("=")[2] for answer in answers)
        wanted = ["ENXIO", *["EPERM"] * (gpus.get(node, 0) - 1)]
        if got != sorted(wanted):
            problems.append(f"{node}: {' '.join(answers)}; expected one ENXIO and {len(wanted) - 1} EPERM")
    return problems


def _wait_for_idle(lab: str, controller: str) -> None:
    """Wait until two nodes of the partition are idle: a node registers a moment after its slurmd starts."""
    deadline = time.monotonic() + PATIENCE
    while True:
        idle = _on(lab, controller, ["sinfo", "-h", "-p", PARTITION, "-t", "idle", "-o", "%D"]).split()
        if sum(int(number) for number in idle) >= 2:
            return
        if time.monotonic() > deadline:
            nodes = _on(lab, controller, ["sinfo", "-N", "-l"])
            raise LabError(f"after {PATIENCE} s fewer than two nodes of `{PARTITION}` are idle:\n{nodes}")
        time.sleep(1)


def _on(lab: str, machine: str, command: list[str]) -> str:
    return capture(ssh.login(lab, machine, shlex.join(command)), timeout=180)
