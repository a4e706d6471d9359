"""A login host, seen from itself: Slurm's commands work, and it has no configuration of its own."""

from __future__ import annotations

testinfra_hosts = ["ansible://slurm_login"]


def test_commands_work_without_a_configuration_file(host):
    assert not host.file("/etc/slurm/slurm.conf").exists
    assert host.service("sackd").is_running
    assert host.service("sackd").is_enabled
    assert host.check_output("sinfo --noheader --partition=gpu --format=%N") == "gpu[01-02]"


def test_jobs_start_from_here(host):
    assert host.check_output("srun --account=research --nodelist=gpu02 hostname") == "gpu02"


def test_it_runs_no_daemon_of_a_node_or_controller(host):
    assert host.run("pgrep --exact 'slurmd|slurmctld|slurmdbd'").rc == 1
