# SPDX-License-Identifier: GPL-3.0-or-later
"""From a line of the kernel's log to a drained node and an alert: real agent, slurmctld, limiter, Prometheus and Alertmanager."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import OURS
from tests.unit.health.agent.agent_kit import GPU, XID_79, Node
from tests.unit.health.control.test_real_control import Bench
from tests.unit.health.monitoring.real_monitoring import Monitoring, Texts
from tests.unit.slurm.nodes.real_slurm import RealSlurm

NAMES = [f"gpu{number:03}" for number in range(1, 11)]
TOOLS = ("slurmctld", "slurmd", "scontrol", "sbatch", "sinfo", "prometheus", "prometheus-alertmanager", "amtool")
METRICS = "var/metrics/bedplate_health.prom"


@pytest.mark.daemons
@pytest.mark.tools(*TOOLS)
def test_an_xid_drains_its_node_with_evidence_and_job_and_is_an_alert_within_two_minutes(tmp_path: Path) -> None:
    sick = NAMES[0]
    node = Node(tmp_path, {"node": sick, "interval": 5, "textfile": f"/{METRICS}"})
    (node.root / METRICS).parent.mkdir(parents=True)
    (node.bin / "scontrol").unlink()
    target = {"labels": {"job": "bedplate-node", "node": sick, "rack": "r1", "__metrics_path__": "/sick"}}
    for folder in ("slurm", "monitoring", "control"):
        (tmp_path / folder).mkdir()
    with RealSlurm(tmp_path / "slurm", NAMES) as slurm, Texts() as texts:
        site = Monitoring(tmp_path / "monitoring", [{"targets": [f"127.0.0.1:{texts.port}"], **target}])
        bench = Bench(slurm, tmp_path / "control", cluster=50)
        controller = bench.controller()
        job = slurm.submit(sick, 300)
        node.write(f"sys/fs/cgroup/system.slice/slurmstepd.scope/job_{job}/cgroup.events", "populated 1\n")

        def tick() -> None:
            """Do what time does: node exporter reads the file, the controller ticks."""
            file = node.root / METRICS
            texts.texts["/sick"] = file.read_text() if file.exists() else ""
            assert controller.tick() == []
            time.sleep(0.5)

        with site, node.running(environment={"SLURM_CONF": str(slurm.conf)}):
            site.until(lambda: (tick(), site.query('bedplate_health_status{status="ok"} == 1'))[1], 60)
            begin, drained, fired = time.monotonic(), 0.0, 0.0
            node.log(1, XID_79)
            while not (drained and fired) and time.monotonic() - begin < 120:
                tick()
                drained = drained or (bench.owned(OURS) == [sick] and time.monotonic() - begin)
                fired = fired or (bool(site.alerts("BedplateXidHardware")) and time.monotonic() - begin)
            assert drained
            assert fired
            print(f"drained after {drained:.1f} s, alert after {fired:.1f} s")
            reason = bench.view().nodes[sick].reason
            assert re.match(rf"bedplate:health:limiter: reset xid-79@{GPU} job={job} ev=[0-9a-f]{{8}} \[", reason)
            digest = reason.split("ev=")[1][:8]
            bundles = (node.root / "var/lib/bedplate/health/evidence").glob("*xid-79*/bundle.json")
            assert any(digest in path.read_text() for path in bundles)
            assert slurm.job(job)["JobState"] == "RUNNING"
            node.log(2, f"bedplate-health: reset of {GPU} done")
            site.until(lambda: (tick(), not site.alerts("BedplateXidHardware"))[1], 60)
            assert bench.owned(OURS) == [sick]
            # No step outlives the test: another one looks at all jobs of this machine.
            slurm.change(["scancel", job])
            site.until(lambda: slurm.job(job).get("JobState") == "CANCELLED" and not _has_steps(job), 60)


def _has_steps(job: str) -> bool:
    """Return whether this machine has a process of the job."""
    return subprocess.run(["pgrep", "-f", rf"^slurmstepd: \[{job}\."], capture_output=True, check=False).returncode == 0
