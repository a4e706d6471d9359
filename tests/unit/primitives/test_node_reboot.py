"""Who wants a reboot, and what it would end."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.node_reboot import in_use, reasons


def test_notes_are_told_by_who_wrote_them(tmp_path: Path) -> None:
    assert reasons(tmp_path / "none") == {}
    (tmp_path / "gpu_driver").write_text("driver 1 is installed and not loaded\n")
    (tmp_path / "directory").mkdir()
    assert reasons(tmp_path) == {"gpu_driver": "driver 1 is installed and not loaded"}


@pytest.mark.parametrize(
    ("processes", "told"),
    [
        (["systemd", "sshd"], []),
        (["slurmd"], ["slurmd runs and may get a job"]),
        (["slurmstepd", "slurmstepd", "slurmd"], ["2 steps of jobs run", "slurmd runs"]),
        # Another program with a like name.
        (["slurmdbd", "slurmctld"], []),
    ],
)
def test_jobs_and_what_may_start_them_speak_against_it(tmp_path: Path, processes: list[str], told: list[str]) -> None:
    for number, name in enumerate(processes):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
    found = in_use(tmp_path)
    assert len(found) == len(told)
    assert all(text in one for text, one in zip(told, found, strict=True))
