"""Roles node_health and health_control: nodes report what their kernel's log has, a controller drains within limits."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from lab.scenario_site import CLUSTER_PATH, play, ssh

testinfra_hosts = ["ansible://slurm_controllers"]

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
DEADLINE = 120  # seconds, from a line in the log to the drain


def node(host, name: str) -> str:
    return host.check_output(f"scontrol --oneliner show node {name}")


def reason(host, name: str) -> str:
    found = re.search(r"Reason=(.*?) \[\w+@", node(host, name))
    return found[1] if found else ""


def log(machine: str, text: str) -> None:
    """Write a record into the file that the agent of a machine reads as the kernel's log."""
    command = (
        f"printf '4,%d,%d,-;%s\\n' $(($(wc -l < /var/lib/test-kmsg) + 1)) $(cut -d. -f1 /proc/uptime)000000 '{text}'"
    )
    done = ssh(machine, f"{command} >> /var/lib/test-kmsg")
    assert done.returncode == 0, done.stderr


def until(seconds: float, holds) -> float:
    """Wait until a condition holds; return the seconds that it took."""
    start = time.monotonic()
    while not (found := holds()):
        assert time.monotonic() - start < seconds, "not in time"
        time.sleep(1)
    assert found
    return time.monotonic() - start


@pytest.fixture
def resumed(host):
    yield
    host.run("scancel --user=root; scontrol update nodename=cpu[01-03] state=resume")


def test_every_node_has_a_verdict_and_reports_it(host):
    for name in ("cpu01", "cpu02", "cpu03"):
        verdict = ssh(name, "cat /run/bedplate/health/verdict").stdout.split()
        assert verdict[:2] == ["1", "ok"]
        assert "State=IDLE " in node(host, name)
    assert "/etc/slurm/scripts/prolog-" in host.check_output("scontrol show config | grep '^Prolog\\b'")


def test_verify_finds_nothing_while_all_nodes_are_well(host, tmp_path: Path):
    assert host
    file = tmp_path / "findings.json"
    done = play("verify.yml", CLUSTER_PATH, f"--extra-vars=verify_report_file={file}")
    assert done.returncode == 0, done.stdout[-3000:]
    assert {one["kind"] for one in json.loads(file.read_text())} <= {"not-checked"}


def test_an_xid_drains_the_node_of_a_job_with_evidence_and_the_job_ends_by_itself(host, resumed):
    job = host.check_output("sbatch --parsable --nodelist=cpu01 --wrap='sleep 600'")
    until(60, lambda: "RUNNING" in host.check_output(f"squeue --noheader --format=%T --job={job}"))
    host.check_output("scontrol update nodename=cpu02 state=drain reason='fan is loud'")
    log("cpu01", XID)
    seconds = until(DEADLINE, lambda: "DRAIN" in node(host, "cpu01"))
    print(f"drained {seconds:.0f} s after the line")
    assert re.match(r"bedplate:health:[0-9a-z_-]+: .*xid-79", reason(host, "cpu01"))
    assert job in reason(host, "cpu01")
    assert "RUNNING" in host.check_output(f"squeue --noheader --format=%T --job={job}")
    found = ssh("cpu01", "cat /var/lib/bedplate/health/evidence/*xid-79*/*").stdout
    assert "Xid (PCI:0000:3b:00): 79" in found
    assert job in found
    assert reason(host, "cpu02") == "fan is loud"
    assert "State=IDLE " in node(host, "cpu03")


def test_a_dead_agent_is_restarted_and_its_node_runs_jobs(host, resumed):
    ssh("cpu03", "systemctl kill --signal=KILL bedplate-health")
    until(30, lambda: "active" in ssh("cpu03", "systemctl is-active bedplate-health").stdout.split())
    assert host.check_output("srun --nodelist=cpu03 hostname") == "cpu03"
