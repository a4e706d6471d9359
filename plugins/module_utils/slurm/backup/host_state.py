# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a host before a restore: jobs of a node, and what a controller or database host has that a restore would replace."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...common import command
from ...common.command import Outcome
from ..saved.database_dump import Database, DumpError
from ..saved.state_archive import ArchiveError, StateArchive

_STEP = re.compile(rb"slurmstepd: \[(\d+)")
_QUICK = 30.0
_SETTLED = 5.0  # seconds in which slurmctld compares the jobs of nodes that have registered
_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{0}'"
Run = Callable[..., Outcome]


def node_jobs(proc: Path = Path("/proc")) -> list[int]:
    """Return the ids of jobs with a step on this machine, by the titles of their processes. Raises OSError."""
    found = set()
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            title = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if step := _STEP.match(title):
            found.add(int(step[1]))
    return sorted(found)


def key_digest(path: Path = Path("/etc/munge/munge.key")) -> str:
    """Return the SHA-256 of the munge key, "" without one."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def controller_facts(state: Path, user: str, run: Run = command.run) -> dict[str, Any]:
    """Return whether slurmctld runs here, and how many files its state has. Raises OSError."""
    return {"runs": _is_active("slurmctld.service", run), "files": _state_files(state, user)}


def database_facts(name: str, cluster: str, run: Run = command.run) -> dict[str, Any]:
    """Return whether slurmdbd and MariaDB run here, how many jobs the cluster has in the database, and the largest id of one.

    Without MariaDB it has no jobs. Raises OSError if MariaDB runs and does not answer.
    """
    facts: dict[str, Any] = {"runs": _is_active("slurmdbd.service", run), "jobs": 0, "largest": 0, "tables": 0}
    if not _is_active("mariadb.service", run):
        return facts
    try:
        Database(name, _QUICK)
        tables = _rows(_TABLES.format(name), run)
        facts["tables"] = len(tables)
        if [f"{cluster}_job_table"] in tables:
            count, largest = _rows(
                f"SELECT COUNT(*), COALESCE(MAX(id_job), 0) FROM `{name}`.`{cluster}_job_table`", run
            )[0]
            facts.update(jobs=int(count), largest=int(largest))
    except DumpError as error:
        raise OSError(str(error)) from error
    return facts


def wait_for_nodes(
    nodes: str, seconds: float = 120.0, run: Run = command.run, sleep: Callable[[float], None] = time.sleep
) -> list[str]:
    """Wait until slurmctld has heard these nodes, and then until it has compared their jobs; return the others."""
    end = time.monotonic() + seconds
    while True:
        done = run(["sinfo", "--noheader", "--Node", f"--nodes={nodes}", "--format=%N %T"], _QUICK)
        rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
        silent = sorted({row[0] for row in rows if row[-1].endswith("*") or "unknown" in row[-1]})
        if done.code == 0 and rows and not silent:
            sleep(_SETTLED)
            return []
        if time.monotonic() > end:
            return silent or [nodes]
        sleep(1.0)


def _state_files(path: Path, user: str) -> int:
    if not path.is_dir():
        return 0
    try:
        return len(StateArchive(path, user).files())
    except ArchiveError as error:
        # A directory without job_state: of a slurmctld that was never started.
        if "has no job_state" in str(error):
            return 0
        raise OSError(str(error)) from error


def _is_active(unit: str, run: Run) -> bool:
    return run(["systemctl", "is-active", "--quiet", unit], _QUICK).code == 0


def _rows(statement: str, run: Run) -> list[list[str]]:
    done = run(["mariadb", "--batch", "--skip-column-names", "--execute", statement], _QUICK)
    if done.code != 0:
        raise DumpError(f"mariadb: {done.error_line}")
    return [line.split("\t") for line in done.stdout.splitlines()]
