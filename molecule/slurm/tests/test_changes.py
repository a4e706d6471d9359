"""Changes of the cluster file on the running cluster, each one edit and one run: running jobs survive."""

from __future__ import annotations

import base64
import json
import re

import pytest

from lab.paths import state_of
from lab.scenario_site import CONTROLLER, SCENARIO, edited, job_state, ssh, start_job, starts

testinfra_hosts = ["ansible://slurm_controllers"]

SAME = ("mariadb", "slurmd", "sackd")


# The last test's run brings back what the scenario says; between the tests the cluster may stay as one left it.
@pytest.fixture
def site(host, tmp_path):
    yield from edited(host, tmp_path)


def test_a_partition_and_a_node_that_go_and_come_spare_their_jobs_and_restart_nothing(host, site):
    start = host.check_output("systemctl show slurmctld --property=NRestarts,ActiveEnterTimestampMonotonic")
    in_partition = start_job(host, "--partition=debug --nodelist=gpu01")
    on_node = start_job(host, "--nodelist=gpu02 --gres=gpu:1")
    site.edit("  debug: {", "  develop: {")
    site.edit("  r2: {nodes: gpu02, profile: sim}\n", "")
    site.apply()
    assert job_state(host, in_partition) == "RUNNING"
    assert job_state(host, on_node) == "RUNNING"
    kept = host.check_output("scontrol --oneliner show partition debug").split()
    assert {"State=DRAIN", "Hidden=YES", "Default=NO"} <= set(kept)
    assert host.check_output("scontrol show partition develop | grep --only-matching State=UP") == "State=UP"
    refused = host.run("sbatch --account=research --partition=debug --wrap=true")
    assert refused.rc != 0
    assert host.check_output("sinfo --noheader --partition=gpu --format=%N") == "gpu01"
    host.check_output(f"scancel {on_node}; while squeue --noheader --all | grep -q {on_node}; do sleep 1; done")
    site.apply()
    assert host.check_output("scontrol show nodes --oneliner | wc -l") == "1"
    assert job_state(host, in_partition) == "RUNNING"
    host.check_output(f"scancel {in_partition}; while squeue --noheader --all | grep -q .; do sleep 1; done")
    elsewhere = start_job(host, "--nodelist=gpu01")
    site.edit(
        "  r1: {nodes: gpu01, profile: sim}\n",
        "  r1: {nodes: gpu01, profile: sim}\n  r2: {nodes: gpu02, profile: sim}\n",
    )
    site.edit(
        "    SlurmdParameters: config_overrides\n", "    SlurmdParameters: config_overrides\n    MessageTimeout: 45\n"
    )
    site.apply()
    assert "MessageTimeout          = 45 sec" in host.check_output("scontrol show config | grep MessageTimeout")
    assert host.check_output("sinfo --noheader --all --format=%R | sort -u | tr '\\n' ' '").split() == [
        "develop",
        "gpu",
        "urgent",
    ]
    assert job_state(host, elsewhere) == "RUNNING"
    assert host.check_output("srun --account=research --nodelist=gpu02 hostname") == "gpu02"
    assert host.check_output("systemctl show slurmctld --property=NRestarts,ActiveEnterTimestampMonotonic") == start


def test_a_node_with_jobs_goes_to_no_other_controller(host, site):
    running = start_job(host, "--nodelist=gpu02")
    before = ssh("gpu02", "cat /etc/default/slurmd").stdout + starts(host)
    site.edit(f"ctl1: {{address: {CONTROLLER}}}", f"ctl1: {{address: {CONTROLLER[:-2]}8}}")
    refused = site.run("--limit=gpu02")
    assert refused.returncode != 0
    assert re.search(rf"\bjobs [a-z ]*, [a-z ]*{re.escape(CONTROLLER)}:6817", " ".join(refused.stdout.split()))
    assert ssh("gpu02", "cat /etc/default/slurmd").stdout + starts(host) == before
    assert job_state(host, running) == "RUNNING"


def test_mistakes_in_the_cluster_file_are_all_named_and_touch_no_host(host, site):
    before = host.check_output("stat --format=%Y /var/lib/bedplate/files.json")
    site.edit("    SlurmdParameters: ", "    SlurmdParametres: ")
    site.edit('  debug: {nodes: ["rack:r1"]}', '  debug: {nodes: ["rack:r9"]}')
    site.edit("count: 2,", "count: 3,")
    result = site.run(playbook="site.yml")
    output = result.stdout + result.stderr
    assert result.returncode != 0
    for message in ("did you mean SlurmdParameters", "'r9'", "'count' is 3"):
        assert re.search(rf"slurm\.bedplate\.yml:\d+.*{message}", output)
    assert "PLAY RECAP" not in output or "ctl1" not in output[output.rindex("PLAY RECAP") :]
    assert host.check_output("stat --format=%Y /var/lib/bedplate/files.json") == before


def test_one_host_alone_does_not_change_the_configuration_of_the_others(host, site):
    before = host.check_output("sha256sum /etc/slurm/slurm.conf")
    recaps = site.apply("--limit=gpu01")
    assert set(recaps) == {"gpu01"}
    assert host.check_output("sha256sum /etc/slurm/slurm.conf") == before


# Its run is the last one, with the cluster file of the scenario: test_drift.py begins there.
def test_new_keys_reach_every_daemon_that_reads_them_and_no_output(host, site):
    before = starts(host)
    secrets = state_of(f"molecule-{SCENARIO}") / "secrets"
    old = {name: (secrets / name).read_bytes() for name in ("munge_key", "jwt_key")}
    for name, key in old.items():
        (secrets / name).chmod(0o600)
        (secrets / name).write_bytes(bytes(reversed(key)))
        (secrets / name).chmod(0o400)
    result = site.run("-vvv", "--diff")
    assert result.returncode == 0, result.stdout[-6000:]
    after = starts(host)
    # Who only asks munge needs no restart; these stay, and with them what runs on the node.
    assert {daemon_of(after, name) for name in SAME} == {daemon_of(before, name) for name in SAME}
    for name in ("munge", "slurmdbd", "slurmctld", "slurmrestd"):
        assert daemon_of(after, name) != daemon_of(before, name)
    assert host.run("scontrol ping").rc == 0
    assert host.run("sacctmgr --noheader list cluster").rc == 0
    # Nodes answer again when slurmctld next asks them, after up to 100 s.
    host.check_output("scontrol reconfigure")
    assert host.check_output("srun --account=research --nodelist=gpu02 hostname") == "gpu02"
    for key in old.values():
        for text in (bytes(reversed(key)).hex(), base64.b64encode(bytes(reversed(key))).decode(), repr(key)[2:40]):
            assert text not in result.stdout
            assert json.dumps(text) not in result.stdout


def daemon_of(shown: str, name: str) -> str:
    """Return what was shown of one daemon."""
    return next(block for block in shown.split("\n\n") if f"Id={name}.service" in block)
