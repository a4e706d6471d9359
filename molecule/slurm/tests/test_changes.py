"""Changes of the cluster file on the running cluster, each one edit and one run: running jobs survive."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

testinfra_hosts = ["ansible://slurm_controllers"]

ROOT = Path(__file__).parents[3]
CLUSTER_FILE = (ROOT / "molecule/slurm/slurm.bedplate.yml").read_text()


class Site:
    """A copy of the cluster file that a test may edit, and the playbooks run on it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "slurm.bedplate.yml"
        self.path.write_text(CLUSTER_FILE)
        self.edited = False

    def edit(self, old: str, new: str) -> None:
        text = self.path.read_text()
        assert old in text
        self.path.write_text(text.replace(old, new))
        self.edited = True

    def run(self, *arguments: str, playbook: str = "scheduler.yml") -> subprocess.CompletedProcess[str]:
        state = ROOT / ".cache/lab/molecule-slurm"
        return subprocess.run(
            ["ansible-playbook", f"--inventory={self.path}", f"--inventory={ROOT}/molecule/inventory", *arguments,
             f"--extra-vars=bedplate_secrets_dir={state}/secrets", str(ROOT / "playbooks" / playbook)],
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_SSH_COMMON_ARGS": f'-F "{state}/ssh_config"',
                 "ANSIBLE_NOCOLOR": "1"},
            capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip

    def apply(self, *arguments: str) -> dict[str, dict[str, int]]:
        result = self.run(*arguments)
        assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
        return recap(result.stdout)


def recap(text: str) -> dict[str, dict[str, int]]:
    """Return host -> counter -> number of the last lines of a run."""
    hosts = {}
    for line in text[text.rindex("PLAY RECAP") :].splitlines()[1:]:
        if ":" in line:
            host, _, counters = line.partition(":")
            hosts[host.strip()] = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", counters)}
    return hosts


@pytest.fixture
def site(host, tmp_path):
    """Yield a site to edit; whatever the test did, the cluster is what the scenario says afterwards."""
    site = Site(tmp_path)
    yield site
    host.run("scancel --user=root; while squeue --noheader --all | grep -q .; do sleep 1; done")
    if site.edited:
        Site(tmp_path).apply()


def start_job(host, *arguments: str) -> str:
    """Start a job that goes on; return its id once it runs."""
    out = host.check_output(
        f"sbatch --parsable --account=research --mem=50 {' '.join(arguments)} --output=/dev/null --wrap='sleep 600'"
    )
    job = out.strip()
    for _ in range(30):
        if state_of(host, job) == "RUNNING":
            return job
        time.sleep(1)
    raise AssertionError(f"job {job} is {state_of(host, job)}")


def state_of(host, job: str) -> str:
    return host.run(f"squeue --noheader --jobs={job} --format=%T --all").stdout.strip()


def starts(host) -> str:
    """Return when the daemons of the controller were started, and their process ids."""
    return host.check_output(
        "systemctl show munge mariadb slurmdbd slurmctld slurmrestd --property=Id,MainPID,ExecMainStartTimestampMonotonic"
    )


def test_a_second_run_changes_nothing_and_restarts_nothing(host, site):
    before = starts(host)
    for counters in site.apply().values():
        assert counters["changed"] == 0
    assert starts(host) == before


def test_renaming_a_partition_spares_its_jobs(host, site):
    running = start_job(host, "--partition=debug")
    site.edit("  debug: {", "  develop: {")
    site.apply()
    assert state_of(host, running) == "RUNNING"
    kept = host.check_output("scontrol --oneliner show partition debug").split()
    assert {"State=DRAIN", "Hidden=YES", "Default=NO"} <= set(kept)
    assert host.check_output("scontrol show partition develop | grep --only-matching State=UP") == "State=UP"
    refused = host.run("sbatch --account=research --partition=debug --wrap=true")
    assert refused.rc != 0
    host.check_output(f"scancel {running}; while squeue --noheader --all | grep -q .; do sleep 1; done")
    site.apply()
    assert host.check_output("sinfo --noheader --all --format=%R | sort -u | tr '\\n' ' '").split() == [
        "develop",
        "gpu",
    ]


def test_removing_a_node_spares_its_jobs_and_adding_it_again_works(host, site):
    elsewhere = start_job(host, "--nodelist=gpu01")
    there = start_job(host, "--nodelist=gpu02 --gres=gpu:1")
    site.edit("  r2: {nodes: gpu02, profile: sim}\n", "")
    site.apply()
    assert state_of(host, elsewhere) == "RUNNING"
    assert state_of(host, there) == "RUNNING"
    assert host.check_output("sinfo --noheader --partition=gpu --format=%N") == "gpu01"
    host.check_output(f"scancel {there}; while squeue --noheader --all | grep -q {there}; do sleep 1; done")
    site.apply()
    assert host.check_output("scontrol show nodes --oneliner | wc -l") == "1"
    site.edit(
        "  r1: {nodes: gpu01, profile: sim}\n",
        "  r1: {nodes: gpu01, profile: sim}\n  r2: {nodes: gpu02, profile: sim}\n",
    )
    site.apply()
    assert state_of(host, elsewhere) == "RUNNING"
    assert host.check_output("srun --account=research --nodelist=gpu02 hostname") == "gpu02"


def test_a_configuration_that_slurmctld_refuses_never_lands(host, site):
    before = host.check_output("sha256sum /etc/slurm/*.conf") + starts(host)
    # Every word is valid by itself; only slurmctld knows that there is no such plugin.
    site.edit(
        "    SlurmdParameters: config_overrides\n",
        "    SlurmdParameters: config_overrides\n    SelectType: select/nosuch\n",
    )
    result = site.run()
    assert result.returncode != 0
    assert "select/nosuch" in result.stdout
    assert host.check_output("sha256sum /etc/slurm/*.conf") + starts(host) == before
    assert host.run("scontrol ping").rc == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    SlurmdParameters: ", "    SlurmdParametres: ", "SlurmdParameters"),
        ("  debug: {nodes: [\"rack:r1\"]}", "  debug: {nodes: [\"rack:r9\"]}", "r9"),
        ("count: 2,", "count: 3,", "3"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_cluster_file_touches_no_host(host, site, old, new, message):
    before = host.check_output("stat --format=%Y /var/lib/bedplate/files.json")
    site.edit(old, new)
    result = site.run(playbook="site.yml")
    output = result.stdout + result.stderr
    assert result.returncode != 0
    assert re.search(r"slurm\.bedplate\.yml:\d+", output)
    assert message in output
    assert "PLAY RECAP" not in output or "ctl1" not in output[output.rindex("PLAY RECAP") :]
    assert host.check_output("stat --format=%Y /var/lib/bedplate/files.json") == before


def test_a_change_that_reconfigure_can_make_restarts_nothing(host, site):
    start = host.check_output("systemctl show slurmctld --property=NRestarts,ActiveEnterTimestampMonotonic")
    job = start_job(host, "--nodelist=gpu01")
    site.edit(
        "    SlurmdParameters: config_overrides\n", "    SlurmdParameters: config_overrides\n    MessageTimeout: 45\n"
    )
    site.apply()
    assert "MessageTimeout          = 45 sec" in host.check_output("scontrol show config | grep MessageTimeout")
    assert state_of(host, job) == "RUNNING"
    assert host.check_output("systemctl show slurmctld --property=NRestarts,ActiveEnterTimestampMonotonic") == start


def test_one_host_alone_does_not_change_the_configuration_of_the_others(host, site):
    before = host.check_output("sha256sum /etc/slurm/slurm.conf")
    recaps = site.apply("--limit=gpu01")
    assert set(recaps) == {"gpu01"}
    assert host.check_output("sha256sum /etc/slurm/slurm.conf") == before


def test_no_secret_in_the_output(host, site):
    result = site.run("-vvv", "--diff")
    assert result.returncode == 0
    import base64

    for path in ("/etc/munge/munge.key", "/etc/slurm/jwt_hs256.key"):
        key = base64.b64decode(host.check_output(f"base64 --wrap=0 {path}"))
        for text in (key.hex(), base64.b64encode(key).decode(), repr(key)[2:40]):
            assert text not in result.stdout
            assert json.dumps(text) not in result.stdout
