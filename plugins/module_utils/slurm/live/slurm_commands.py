# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask slurmctld what it knows of nodes, partitions and jobs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .slurmctld_report import JOB_FORMAT, Live, parse_live

# `run_command` of AnsibleModule, or what behaves like it.
RunCommand = Callable[..., Any]

_QUESTIONS = (
    ("scontrol", "show", "config"),
    ("scontrol", "--oneliner", "--all", "show", "nodes"),
    ("scontrol", "--oneliner", "--all", "show", "partitions"),
    ("squeue", "--local", "--noheader", "--all", f"--format={JOB_FORMAT}"),
)


def environment(slurm_conf: Path) -> dict[str, str]:
    """Return what Slurm's commands need in their environment to use this file and to answer in English."""
    return {"SLURM_CONF": str(slurm_conf), "LC_ALL": "C"}


def drop_login_variables() -> None:
    """Remove a login's variables for Slurm's commands from this process: SQUEUE_STATES, for one, would hide jobs."""
    for name in [name for name in os.environ if name.startswith(("SQUEUE_", "SLURM_"))]:
        del os.environ[name]


def query(run_command: RunCommand, slurm_conf: Path) -> Live | None:
    """Ask slurmctld everything; None when it does not answer, for half an answer would hide jobs."""
    drop_login_variables()
    answers = []
    for question in _QUESTIONS:
        rc, out, _err = run_command(["timeout", "30", *question], environ_update=environment(slurm_conf))
        if rc != 0:
            return None
        answers.append(str(out))
    return parse_live(*answers)
