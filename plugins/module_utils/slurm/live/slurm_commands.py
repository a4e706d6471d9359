# SPDX-License-Identifier: GPL-3.0-or-later
"""Query slurmctld for nodes, partitions and jobs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...common import command
from .slurmctld_report import JOB_FORMAT, Live, parse_live

_DEADLINE = 30.0  # seconds
_LOGIN = ("SQUEUE_", "SLURM_", "SINFO_", "SCONTROL_")
_QUESTIONS = (
    ("scontrol", "show", "config"),
    ("scontrol", "--oneliner", "--all", "show", "nodes"),
    ("scontrol", "--oneliner", "--all", "show", "partitions"),
    ("squeue", "--local", "--noheader", "--all", f"--format={JOB_FORMAT}"),
)


def run(argv: Sequence[str], slurm_conf: Path) -> command.Outcome:
    """Run a command of Slurm on the cluster of a slurm.conf."""
    return command.run(argv, _DEADLINE, environment={"SLURM_CONF": str(slurm_conf)})


def change(argv: Sequence[str], slurm_conf: Path) -> str:
    """Run a command that changes slurmctld's state; return why it failed, or ""."""
    outcome = run(argv, slurm_conf)
    return "" if outcome.code == 0 else outcome.error_line


def drop_login_variables() -> None:
    """Remove the user's environment variables for Slurm's commands from this process: SQUEUE_STATES, for example, would hide jobs."""
    for name in [name for name in os.environ if name.startswith(_LOGIN)]:
        del os.environ[name]


def query(slurm_conf: Path) -> Live | None:
    """Run all queries; return None if slurmctld does not answer one of them, since a partial answer would hide jobs."""
    drop_login_variables()
    answers = []
    for question in _QUESTIONS:
        outcome = run(question, slurm_conf)
        if outcome.code != 0:
            return None
        answers.append(outcome.stdout)
    return parse_live(*answers)
