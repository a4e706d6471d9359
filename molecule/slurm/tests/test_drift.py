"""Ways in which the running cluster leaves its cluster file, tests/drift/slurm.yml: verify names each, and nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.scenario_site import CLUSTER_PATH, SLURMD, play, ssh
from tests.drift.slurm import missed, others, rows_of

testinfra_hosts = ["ansible://slurm_controllers"]

ROWS = rows_of(SLURMD)
FIRST = min(row["batch"] for row in ROWS)

Done = tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]


def verify(directory: Path, *arguments: str) -> Done:
    """Return how verify ended, and its findings."""
    file = directory / "findings.json"
    file.unlink(missing_ok=True)
    done = play("verify.yml", CLUSTER_PATH, f"--extra-vars=verify_report_file={file}", *arguments)
    assert file.exists(), done.stdout + done.stderr
    return done, json.loads(file.read_text())


def on(machine: str, command: str) -> None:
    done = ssh(machine, command)
    assert done.returncode == 0, f"{machine}: {command}: {done.stdout}{done.stderr}"


@contextmanager
def drifted(rows: list[dict[str, Any]]) -> Iterator[None]:
    """Make the drift of rows, the last undone first."""
    made = []
    try:
        for row in rows:
            made.append(row)
            on(row["machine"], row["make"])
        yield
    finally:
        for row in reversed(made):
            on(row["machine"], row["undo"])


def silent(done: Done) -> bool:
    """Whether nothing was found; what cannot be compared in a container is said, and is no difference."""
    run, findings = done
    return run.returncode == 0 and {one["kind"] for one in findings} <= {"not-checked"}


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(batch, marks=() if batch == FIRST else pytest.mark.full_in("slurm"))
        for batch in sorted({row["batch"] for row in ROWS})
    ],
)
def test_verify_names_each_drift_and_who_overrides_it_and_nothing_else(batch: int, tmp_path: Path):
    rows = [row for row in ROWS if row["batch"] == batch]
    with drifted(rows):
        done, findings = verify(tmp_path)
    assert done.returncode == 2, done.stdout
    assert missed(rows, findings) == [], json.dumps(findings, indent=1)
    # Nor what an earlier batch left: what the last one leaves, the next test sees.
    assert others(rows, findings) == []


def test_a_machine_that_is_off_is_one_finding_and_hides_no_other(tmp_path: Path):
    # Nobody answers at this port.
    inventory = tmp_path / "off.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"gpu02": {"ansible_port": 1}}}}))
    rows = [row for row in ROWS if row["where"] == "partition debug State"]
    with drifted(rows):
        done, findings = verify(tmp_path, f"--inventory={inventory}")
    assert done.returncode == 2
    assert [(one["kind"], one["severity"]) for one in findings if one["machine"] == "gpu02"] == [
        ("unreachable", "error")
    ]
    assert missed(rows, findings) == []
    assert others(rows, [one for one in findings if one["machine"] != "gpu02"]) == []


def test_right_after_a_restart_nodes_are_waited_for(host, tmp_path: Path):
    host.check_output("systemctl restart slurmctld")
    on("gpu01", "systemctl restart slurmd")
    done = verify(tmp_path)
    assert silent(done), done[0].stdout
