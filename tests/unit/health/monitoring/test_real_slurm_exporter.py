# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the exporter beside a real slurmctld, which hangs; and the answers of other releases of Slurm."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Daemon
from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter import slurm_answers, slurm_metrics
from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter.slurm_answers import NodeState
from tests.kit import slurm_releases
from tests.unit.health.monitoring.rules_kit import ROOT
from tests.unit.health.monitoring.slurm_figures import NODES, SlurmFigures

PROGRAM = "ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter.slurm_exporter"


def check(answers: Sequence[str]) -> None:
    """Compare the answers of a release with the nodes and jobs of SlurmFigures."""
    sinfo, squeue, sdiag = answers
    nodes = slurm_answers.nodes_of(sinfo)
    assert nodes.unread == 0
    assert nodes.partitions["gpu"] == {"power": NODES - 3, "drained": 2, "down": 1}, sinfo
    assert nodes.partitions["long"] == {"power": 10}, sinfo
    assert {name: nodes.nodes.get(name) for name in ("gpu11", "gpu12", "gpu13")} == {
        **dict.fromkeys(("gpu11", "gpu12"), NodeState("drained", "person")),
        "gpu13": NodeState("down", "slurm"),
    }, sinfo
    assert slurm_answers.jobs_of(squeue) == {"gpu": {"running": 1, "pending": 1}, "long": {"pending": 1}}
    figures = slurm_answers.diagnosis_of(sdiag)
    assert set(slurm_metrics._FIGURES) <= set(figures.figures), sdiag
    assert figures.figures["Jobs submitted"] == 2
    assert any("NODE_INFO" in kind for kind in figures.rpcs), sdiag


def get(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def until(holds: Callable[[], object], log: Path, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)


@pytest.mark.daemons
@pytest.mark.tools("slurmctld", "sinfo", "squeue", "sdiag", "sbatch")
def test_the_program_beside_a_slurmctld_that_hangs_and_answers_again(tmp_path: Path) -> None:
    log = tmp_path / "exporter.log"
    argv = (sys.executable, "-S", "-m", PROGRAM, "--listen", "127.0.0.1:0", "--interval", "1")
    with SlurmFigures(tmp_path) as slurm:
        check(slurm.settled())
        environment = {"SLURM_CONF": str(slurm.conf), "SQUEUE_STATES": "SUSPENDED", "PYTHONPATH": f"{ROOT}/collections"}
        with Daemon(argv, log, cwd=tmp_path, environment=environment) as exporter:
            until(lambda: "listening on port" in log.read_text(), log)
            port = int(re.findall(r"port (\d+)", log.read_text())[0])
            until(lambda: "\nbedplate_slurm_up 1\n" in get(port), log)
            text = get(port)
            assert 'bedplate_slurm_jobs{partition="gpu",state="running"} 1' in text
            assert 'bedplate_slurm_node_unavailable{node="gpu13",state="down",kind="slurm"} 1' in text
            os.kill(slurm.daemon.pid, signal.SIGSTOP)
            try:
                # Scrapes stay quick all the time, and the last nodes stay visible.
                longest, end = 0.0, time.monotonic() + 45
                while "\nbedplate_slurm_up 1\n" in (text := get(port)):
                    assert time.monotonic() < end, log.read_text()
                    begin = time.monotonic()
                    get(port)
                    longest = max(longest, time.monotonic() - begin)
                    time.sleep(0.05)
                assert longest < 1
                assert 'bedplate_slurm_node_unavailable{node="gpu13",state="down",kind="slurm"} 1' in text
            finally:
                os.kill(slurm.daemon.pid, signal.SIGCONT)
            until(lambda: "\nbedplate_slurm_up 1\n" in get(port), log, 60)
            children = Path(f"/proc/{exporter.process.pid}/task/{exporter.process.pid}/children").read_text().split()
            assert len(children) <= 3
            exporter.process.terminate()
            assert exporter.process.wait(40) == 0
        print(f"longest scrape {longest * 1000:.0f} ms")


@pytest.mark.full_health
@pytest.mark.parametrize("suite", ["trixie", "sid"])
def test_answers_of_other_releases(suite: str) -> None:
    try:
        done = slurm_releases.inside(suite, "/mnt/tests/unit/health/monitoring/slurm_figures.py")
    except slurm_releases.UnavailableError as error:
        if os.environ.get("BEDPLATE_TOOLS") == "required":
            raise
        pytest.skip(f"NOT TESTED with Slurm of {suite}: {error}")
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout))
