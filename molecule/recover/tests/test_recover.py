# SPDX-License-Identifier: GPL-3.0-or-later
"""A node gets another machine with another host key: it rejoins with a proved key alone, and jobs of the other node never notice."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from lab import machines, nodes, scenario_run
from lab.host import inspect
from lab.paths import ROOT, state_of
from lab.podman import Podman
from tests.kit import rolls
from tests.kit.rolls import Roll

SCENARIO = "recover"
LAB = f"molecule-{SCENARIO}"
CLUSTER_PATH = ROOT / f"molecule/{SCENARIO}/{SCENARIO}.bedplate.yml"
KNOWN_HOSTS = state_of(LAB) / "known_hosts"
NODE, ADDRESS = "n2", "10.215.43.12"
WRONG = "SHA256:" + "A" * 43
ssh, states = partial(rolls.ssh, SCENARIO), partial(rolls.states_of, SCENARIO)
pytestmark = pytest.mark.usefixtures("elsewhere")


def podman(*words: str) -> str:
    return Podman(inspect())(*words)


def until(what: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (held := what()) and time.monotonic() < end:
        time.sleep(1)
    return held


def new_machine() -> str:
    """Destroy the machine of the node, make another one from the image, and return its public host key; known_hosts keeps the old one."""
    before = KNOWN_HOSTS.read_text()
    container = nodes.container_name(LAB, NODE)
    podman("rm", "--force", "--time", "0", container)
    # As sinfo shows a node that does not answer, drained or not.
    assert until(lambda: states()[NODE].startswith(("down", "drain*")), 120), states()
    nodes.create(Podman(inspect()), LAB, machines.read(CLUSTER_PATH.parent))
    KNOWN_HOSTS.write_text(before)
    key = podman("exec", container, "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
    assert key.split()[1] not in before
    return " ".join(key.split()[:2])


def logins() -> int:
    """Return how often the node's machine has let a user in."""
    words = ("journalctl", "--no-pager", "--boot", "--identifier=sshd", "--identifier=sshd-session")
    return podman("exec", nodes.container_name(LAB, NODE), *words).count("Accepted publickey")


def fingerprint(key: str) -> str:
    digest = hashlib.sha256(base64.b64decode(key.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def recover(*arguments: str, limit: str = NODE) -> subprocess.CompletedProcess[str]:
    found = scenario_run.run(
        SCENARIO, ROOT / "playbooks/recover.yml", CLUSTER_PATH, *(["--limit", limit] if limit else []), *arguments
    )
    print(found.stdout[-5000:], found.stderr[-2000:])
    return found


def confirmed(key: str) -> tuple[str, str]:
    return "-e", f"recover_host_key_confirm={fingerprint(key)}"


def runs_a_job() -> bool:
    return ssh("ctl1", f"timeout 60 srun --nodelist={NODE} hostname").strip() == NODE


def journal() -> str:
    """Return what slurmctld has written."""
    return ssh("ctl1", "journalctl --no-pager --boot --unit=slurmctld --output=cat")


def drains() -> int:
    """Return how often slurmctld has set a reason of a recovery."""
    return journal().count("reason set to: bedplate:recover:")


def job_of(job: str) -> dict[str, str]:
    shown = ssh("ctl1", f"scontrol --oneliner show job {job}")
    return dict(word.split("=", 1) for word in shown.split() if "=" in word)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """A job on the other node, which all tests leave alone."""
    job = ssh("ctl1", "sbatch --parsable --nodelist=n1 --output=/dev/null --mem=50 --wrap='sleep 7200'").strip()
    assert until(lambda: job_of(job)["JobState"] == "RUNNING", 60)
    before = job_of(job)
    yield job
    now = job_of(job)
    assert [now[key] for key in ("JobState", "Restarts", "StartTime")] == [
        before[key] for key in ("JobState", "Restarts", "StartTime")
    ]
    ssh("ctl1", f"scancel {job}")


@pytest.fixture(scope="module")
def key() -> str:
    """The host key of the node's second machine."""
    return new_machine()


def test_a_limit_is_needed_and_names_compute_nodes_alone():
    before = KNOWN_HOSTS.read_text()
    without, others = recover(limit=""), recover(limit="ctl1,n2")
    assert (without.returncode != 0, others.returncode != 0) == (True, True)
    assert "playbooks/recover.yml without --limit" in without.stdout + without.stderr
    assert "not a compute node: ctl1" in others.stdout + others.stderr
    assert KNOWN_HOSTS.read_text() == before


def test_a_node_with_a_job_is_refused(elsewhere: str):
    found = recover(limit="n1")
    assert found.returncode != 0
    assert f"n1: job {elsewhere} on it" in found.stdout
    assert states()["n1"].startswith("mix")


def test_without_a_source_the_new_key_is_shown_and_nothing_is_written(key: str):
    before, slurm = KNOWN_HOSTS.read_text(), states()
    (old,) = (line for line in before.splitlines() if line.startswith(f"{ADDRESS} "))
    found = recover()
    assert found.returncode != 0
    assert f"offered now: ssh-ed25519 {fingerprint(key)}" in found.stdout
    assert f"known_hosts: ssh-ed25519 {fingerprint(' '.join(old.split()[1:3]))}" in found.stdout
    (command,) = set(
        re.findall(r"^ *(ansible-playbook .*recover_host_key_confirm=SHA256:.*)$", found.stdout, re.MULTILINE)
    )
    assert (f"--limit {NODE}" in command, fingerprint(key) in command) == (True, True)
    assert (KNOWN_HOSTS.read_text(), states()) == (before, slurm)


@pytest.mark.parametrize("source", ["confirm", "file", "ca"])
def test_another_key_than_stated_is_refused_and_nothing_is_written(key: str, source: str, tmp_path: Path):
    before, slurm = KNOWN_HOSTS.read_text(), states()
    seen = logins()
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    value = {"confirm": WRONG, "file": f"{other}.pub", "ca": f"{other}.pub"}[source]
    name = {"confirm": "recover_host_key_confirm", "file": "recover_host_key_file", "ca": "recover_host_key_ca"}[source]
    found = recover("-e", f"{name}={value}")
    assert found.returncode != 0
    assert (f"{NODE}: offers" in found.stdout, "Nothing was changed" in found.stdout) == (True, True)
    assert (KNOWN_HOSTS.read_text(), states()) == (before, slurm)
    assert logins() == seen


def test_a_preview_proves_the_key_and_changes_nothing(key: str):
    before = KNOWN_HOSTS.read_text(), states(), drains()
    found = recover("--check", *confirmed(key))
    assert found.returncode == 0
    assert f"{NODE}: new host key" in found.stdout
    assert (KNOWN_HOSTS.read_text(), states(), drains()) == before


def test_with_the_right_fingerprint_the_node_rejoins_and_runs_a_job(key: str):
    found = recover(*confirmed(key))
    assert found.returncode == 0
    assert f"{NODE}: recovered, verified and in service" in found.stdout
    lines = [line for line in KNOWN_HOSTS.read_text().splitlines() if line.startswith(f"{ADDRESS} ")]
    assert lines == [f"{ADDRESS} {key}"]
    assert states()[NODE].startswith("idle ")
    assert runs_a_job()
    # It had no moment in which it could get a job before it was verified.
    log = journal()
    steps = ("setting DOWN", f"node {NODE} reason set to: bedplate:recover:", f"Node {NODE} now responding")
    down, drained, back = (log.rindex(text) for text in steps)
    assert down < drained < back, log[-3000:]
    assert ssh("ctl1", "ls /var/lib/bedplate/recover.json 2>/dev/null || true") == ""


def test_a_second_run_changes_and_drains_nothing(key: str):
    before, drained = KNOWN_HOSTS.read_text(), drains()
    for arguments in ((), confirmed(key)):
        found = recover(*arguments)
        assert found.returncode == 0
        assert f"{NODE}: verified and in service: nothing to do" in found.stdout
        assert {one["changed"] for one in scenario_run.recap(found.stdout).values()} == {0}
    assert (KNOWN_HOSTS.read_text(), drains()) == (before, drained)


def test_a_machine_that_dies_on_the_way_stays_drained_and_the_next_call_continues():
    new = new_machine()
    container = nodes.container_name(LAB, NODE)
    dies = Roll(SCENARIO, CLUSTER_PATH, ("--limit", NODE, *confirmed(new)), playbook="recover.yml")
    dies.at += [(r"^TASK \[Drain ", lambda: podman("kill", container) and None)]
    assert dies.run() != 0
    print(dies.text[-4000:])
    assert re.search(f"{NODE}: not recovered: unreachable: ", dies.text)
    assert dies.report["nodes"][NODE]["outcome"] == "unreachable"
    assert re.match(r"(drain|down)\S* bedplate:recover:\w+: .*unreachable", states()[NODE]), states()

    podman("start", container)
    assert until(lambda: scenario_run.ssh(SCENARIO, "root", NODE, "true").returncode == 0, 60)
    found = recover()
    assert found.returncode == 0
    assert states()[NODE].startswith("idle ")
    assert runs_a_job()


def test_the_drain_of_a_person_stays(tmp_path: Path):
    ssh("ctl1", f"scontrol update nodename={NODE} state=drain reason='fan is loud'")
    stated = tmp_path / f"{NODE}.pub"
    stated.write_text(f"{new_machine()} root@{NODE}\n")
    found = recover("-e", f"recover_host_key_file={tmp_path}/{{{{ inventory_hostname }}}}.pub")
    assert found.returncode == 0
    assert "recovered and verified; not resumed, because others have it out of service" in found.stdout
    assert re.match(r"drain\S* fan is loud", states()[NODE]), states()
    again = recover()
    assert again.returncode == 0
    assert f"{NODE}: verified, and stays out of service" in again.stdout
    assert {one["changed"] for one in scenario_run.recap(again.stdout).values()} == {0}
    ssh("ctl1", f"scontrol update nodename={NODE} state=resume")
    assert runs_a_job()


def test_a_certificate_of_the_stated_ca_is_a_source(tmp_path: Path):
    authority, host = tmp_path / "ca", tmp_path / "host.pub"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(authority)], check=True)
    key, container = new_machine(), nodes.container_name(LAB, NODE)
    host.write_text(f"{key}\n")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", NODE, "-h", "-n", ADDRESS, str(host)]
    subprocess.run(sign, check=True)
    podman("cp", str(tmp_path / "host-cert.pub"), f"{container}:/etc/ssh/host-cert.pub")
    setting = "HostCertificate /etc/ssh/host-cert.pub"
    podman("exec", container, "sh", "-c", f"echo '{setting}' > /etc/ssh/sshd_config.d/ca.conf; systemctl restart ssh")
    before = KNOWN_HOSTS.read_text()
    try:
        found = recover("-e", f"recover_host_key_ca={authority}.pub")
        assert found.returncode == 0
        lines = [line for line in KNOWN_HOSTS.read_text().splitlines() if ADDRESS in line]
        assert [line.split()[:2] for line in lines] == [["@cert-authority", ADDRESS]]
        again = recover()
        assert again.returncode == 0
        assert {one["changed"] for one in scenario_run.recap(again.stdout).values()} == {0}
        assert runs_a_job()
    finally:
        kept = [line for line in before.splitlines() if not line.startswith(f"{ADDRESS} ")]
        KNOWN_HOSTS.write_text("".join(f"{line}\n" for line in [*kept, f"{ADDRESS} {key}"]))
