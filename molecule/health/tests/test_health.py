# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles node_health and health_control: nodes report what their kernel's log has, a controller drains within limits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.scenario_site import CLUSTER_PATH, play, ssh
from tests.kit.health_scenario import DEADLINE, RESET, XID, done, log, node, reason, reported, until

testinfra_hosts = ["ansible://slurm_controllers"]

NODES = ("cpu01", "cpu02", "cpu03")
EXPOSURE = {"bedplate-health": 5.5, "bedplate-health-control": 6.0, "bedplate-slurm-exporter": 5.0}
"""Unit -> bound of what `systemd-analyze security` counts, from 0 to 10."""
NO_JOB = "gpu-lost@0000:3b:00.0"


@pytest.fixture
def resumed(host):
    yield
    host.run("scancel --user=root; scontrol update nodename=cpu[01-03] state=resume")


@pytest.fixture
def without_agent(host, resumed):
    """Stop the agent of cpu02, whose verdict the test writes."""
    done("cpu02", "systemctl stop bedplate-health")
    yield
    done("cpu02", "rm -f /etc/bedplate/health/gate-off; systemctl start bedplate-health")
    # The agent compares its report with Slurm's at its start.
    until(60, lambda: reported(host, "cpu02") == "ok")


def test_every_node_has_a_verdict_and_reports_it(host):
    for name in NODES:
        verdict = ssh(name, "cat /run/bedplate/health/verdict").stdout.split()
        assert verdict[:2] == ["1", "ok"]
        assert "State=IDLE " in node(host, name)
    assert "/etc/slurm/scripts/prolog-" in host.check_output("scontrol show config | grep '^Prolog\\b'")


def test_verify_finds_nothing_while_all_nodes_are_well(host, tmp_path: Path):
    assert host
    file = tmp_path / "findings.json"
    run = play("verify.yml", CLUSTER_PATH, f"--extra-vars=verify_report_file={file}")
    assert run.returncode == 0, run.stdout[-3000:]
    assert {one["kind"] for one in json.loads(file.read_text())} <= {"not-checked"}


def test_the_controller_shows_its_last_tick(host):
    state = json.loads(host.check_output("cat /etc/bedplate/health-control.json"))["state"]
    shown = json.loads(host.check_output(f"cat {state}/status.json"))
    assert int(host.check_output("date +%s")) - shown["time"] < 60
    assert (shown["acts"], shown["nodes"], shown["unavailable"]) == (True, 3, 0)
    assert shown["actions"] == shown["held"] == shown["pages"] == shown["problems"] == []


def test_text_files_are_written_before_node_exporter_is_there(host):
    folder = "/var/lib/prometheus/node-exporter"
    for name in NODES:
        assert 'bedplate_health_status{status="ok"} 1' in done(name, f"cat {folder}/bedplate_health.prom").splitlines()
        assert json.loads(done(name, "cat /run/bedplate/health/verdict.json"))["problems"] == {}
    shown = host.check_output(f"cat {folder}/bedplate_health_control.prom").splitlines()
    assert "bedplate_health_control_acting 1" in shown


def test_units_are_confined(host):
    for machine, unit in (("cpu01", "bedplate-health"), *(("ctl1", one) for one in list(EXPOSURE)[1:])):
        text = done(machine, f"systemd-analyze security --no-pager {unit}.service | tail -n 1")
        found = re.search(r"Overall exposure level for \S+: ([0-9.]+) ", text)
        assert found, text
        print(f"{unit}: {found[1]}")
        assert float(found[1]) <= EXPOSURE[unit]


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
    log("cpu01", RESET)
    until(30, lambda: ssh("cpu01", "cat /run/bedplate/health/verdict").stdout.split()[1:2] == ["ok"])
    assert "DRAIN" in node(host, "cpu01")


def test_only_a_verdict_that_no_job_can_run_fails_a_prolog_and_the_controller_writes_why(host, without_agent):
    boot = done("cpu02", "cat /proc/sys/kernel/random/boot_id").strip()
    line = f"1 fail {boot} $(cut -d. -f1 /proc/uptime) 600 cannot-run {NO_JOB}"
    done("cpu02", f'touch /etc/bedplate/health/gate-off; echo "{line}" > /run/bedplate/health/verdict')
    assert host.check_output("srun --nodelist=cpu02 hostname") == "cpu02"
    done("cpu02", "rm /etc/bedplate/health/gate-off")
    job = host.check_output("sbatch --parsable --nodelist=cpu02 --output=/root/%j --wrap='echo started'")
    until(60, lambda: reason(host, "cpu02") == "Prolog error")
    assert "DRAIN" in node(host, "cpu02")
    assert ssh("cpu02", f"cat /root/{job}").returncode != 0
    assert f"no job can run on this node: {NO_JOB}. " in done("cpu02", "journalctl --no-pager --unit=slurmd")
    # As the agent would report it.
    report = {"v": 1, "s": "fail", "g": "cannot-run", "c": [NO_JOB], "t": 1, "b": boot[:8]}
    host.check_output("scontrol update nodename=cpu02 extra=%s", json.dumps({"bp": report}, separators=(",", ":")))
    until(DEADLINE, lambda: reason(host, "cpu02").startswith("bedplate:health:"))
    assert f": cannot-run {NO_JOB} " in reason(host, "cpu02")


def test_a_dead_agent_is_restarted_and_its_node_runs_jobs(host, resumed):
    ssh("cpu03", "systemctl kill --signal=KILL bedplate-health")
    until(30, lambda: "active" in ssh("cpu03", "systemctl is-active bedplate-health").stdout.split())
    assert host.check_output("srun --nodelist=cpu03 hostname") == "cpu03"
