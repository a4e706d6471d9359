# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm 24.11 becomes 26.05 under jobs. What goes wrong before slurmctld has served ends on 24.11, with the jobs running."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import scenario_run
from lab.paths import ROOT
from tests.kit.judge import Observation, judge, summary
from tests.kit.workload import Workload

SCENARIO = "slurm_upgrade"
CLUSTER_FILE = (ROOT / f"molecule/{SCENARIO}/{SCENARIO}.bedplate.yml").read_text()
OLD, NEW = "24.11", "26.05"
MACHINES = ("ctl1", "gpu01", "gpu02", "login1")
NODES = ["gpu01", "gpu02"]
GO = "/run/bedplate-kit-end"
"""Jobs with an exit code of their own end once it exists on their node."""
EXITS = 7
FOLDER = f"/var/lib/bedplate/slurm-upgrade/{OLD}-{NEW}"
SOURCE = """Types: deb
URIs: http://deb.debian.org/debian
Suites: sid
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.pgp
Check-Valid-Until: no
"""
# sid for what its Slurm needs alone.
PINS = """Package: *
Pin: release n=sid
Pin-Priority: 90

Package: libhwloc15 libhwloc-plugins libze1 libc6 libc6-dev libc-bin libc-dev-bin libc-l10n locales
Pin: release n=sid
Pin-Priority: 600
"""


def shell(machine: str, command: str) -> subprocess.CompletedProcess[str]:
    return scenario_run.ssh(SCENARIO, "root", machine, command)


def on(machine: str, command: str) -> str:
    done = shell(machine, command)
    assert done.returncode == 0, f"{machine}: {command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def installed(machine: str) -> set[str]:
    """Return the releases of Slurm's packages on a machine."""
    shown = on(
        machine, "dpkg-query --show --showformat='${Version} ${db:Status-Status}\\n' 'slurm*' sackd libpam-slurm-adopt"
    )
    return {".".join(line.split(".")[:2]) for line in shown.splitlines() if line.endswith(" installed")}


def play(file: Path, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return scenario_run.run(SCENARIO, ROOT / "playbooks" / playbook, file, *arguments)


def changes(result: subprocess.CompletedProcess[str]) -> set[int]:
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
    return {counters["changed"] for counters in scenario_run.recap(result.stdout).values()}


def rows() -> dict[str, str]:
    """Return table -> its number of rows."""
    tables = ("molecule_job_table", "molecule_step_table", "molecule_assoc_table")
    return {name: on("ctl1", f"mariadb -N slurm_acct_db -e 'SELECT COUNT(*) FROM {name}'") for name in tables}


def serves(release: str) -> bool:
    version = on("ctl1", "scontrol show config | sed -n 's/^SLURM_VERSION *= //p'")
    return (
        version.startswith(release)
        and "is UP" in on("ctl1", "scontrol ping")
        and "molecule" in on("ctl1", "sacctmgr --noheader --parsable2 show cluster format=cluster")
    )


@pytest.fixture(scope="module")
def cluster_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cluster file with the new release, and sid as a source on all machines."""
    for machine in MACHINES:
        on(machine, f"cat >/etc/apt/sources.list.d/sid.sources <<'E'\n{SOURCE}E")
        on(machine, f"cat >/etc/apt/preferences.d/sid <<'E'\n{PINS}E")
        on(machine, "ls /usr/share/keyrings/debian-archive-keyring.pgp && apt-get -qq update")
    path = tmp_path_factory.mktemp("site") / f"{SCENARIO}.bedplate.yml"
    path.write_text(CLUSTER_FILE.replace(f'version: "{OLD}"', f'version: "{NEW}"'))
    return path


@pytest.fixture(scope="module")
def workload() -> Iterator[Workload]:
    found = Workload(shell, "ctl1", NODES)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def exits(workload: Workload) -> dict[str, str]:
    """Return id -> exit code of jobs that run until GO exists."""
    for node in NODES:
        on(node, f"rm -f {GO}")
    wait = f"while [ ! -e {GO} ]; do sleep 1; done"
    submit = f"sbatch --parsable --account=research --output=/dev/null --mem=20 --chdir=/tmp --wrap='{wait}; exit $i'"
    ids = on(
        "ctl1",
        f"for i in $(seq 1 {EXITS}); do {submit.replace('$i', chr(39) + chr(34) + '$i' + chr(34) + chr(39))}; done",
    )
    return {job: f"{number}:0" for number, job in enumerate(ids.split(), start=1)}


@pytest.fixture(scope="module")
def before(workload: Workload, exits: dict[str, str]) -> Observation:
    found = workload.start()
    for _ in range(60):
        if {found.jobs[job].state for job in exits if job in found.jobs} == {"RUNNING"}:
            # slurmdbd has the rows of all steps a moment later.
            time.sleep(8)
            return workload.observe()
        time.sleep(1)
        found = workload.observe()
    raise AssertionError(on("ctl1", "squeue --all"))


@contextmanager
def broken(unit: str, program: str) -> Iterator[None]:
    """Let a daemon of the new release end at its start."""
    drop_in = f"/etc/systemd/system/{unit}.service.d/zz-broken.conf"
    start = on("ctl1", f"sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/{unit}.service")
    test = f"{program} -V | grep -q {NEW} && {{ echo broken by the test; exit 1; }}"
    text = f"[Service]\\nExecStart=\\nExecStart=/bin/sh -c '{test}; exec {start}'\\n"
    on("ctl1", f'mkdir -p $(dirname {drop_in}); printf "{text}" >{drop_in}; systemctl daemon-reload')
    try:
        yield
    finally:
        on("ctl1", f"rm {drop_in}; systemctl daemon-reload")


def is_as_before(workload: Workload, before: Observation, counted: dict[str, str]) -> None:
    """Assert that the old release serves, with all jobs and rows."""
    assert {machine: installed(machine) for machine in MACHINES} == {key: {OLD} for key in MACHINES}
    assert serves(OLD)
    findings = judge(before, workload.observe())
    assert not findings, summary(findings)
    assert rows() == counted


def test_a_preview_changes_nothing(cluster_file: Path, workload: Workload, before: Observation):
    counted = rows()
    result = play(cluster_file, "upgrade_slurm.yml", "--check")
    print(result.stdout[-6000:])
    assert result.returncode == 0
    text = " ".join(result.stdout.split())
    for part in ("from Slurm 24.11 to 26.05", "database ctl1, controllers ctl1", "gpu[01-02]", "slurmctld 24.11.5"):
        assert part in text
    assert shell("ctl1", f"test -e {FOLDER}").returncode != 0
    is_as_before(workload, before, counted)


def test_a_dump_that_is_cut_short_is_refused(cluster_file: Path, workload: Workload, before: Observation):
    counted = rows()
    program = "/usr/bin/mariadb-dump"
    on("ctl1", f"mv {program} {program}.real; printf '#!/bin/sh\\n{program}.real \"$@\" | head -c -2000\\n' >{program}")
    on("ctl1", f"chmod 755 {program}")
    started = on("ctl1", "systemctl show slurmctld --property=MainPID")
    try:
        result = play(cluster_file, "upgrade_slurm.yml")
    finally:
        on("ctl1", f"mv {program}.real {program}")
    print(result.stdout[-6000:])
    assert result.returncode != 0
    assert "is cut short" in " ".join(result.stdout.split())
    # slurmctld has never stopped.
    assert on("ctl1", "systemctl show slurmctld --property=MainPID") == started
    is_as_before(workload, before, counted)


@pytest.mark.parametrize(
    ("unit", "program"), [("slurmdbd", "/usr/sbin/slurmdbd"), ("slurmctld", "/usr/sbin/slurmctld")]
)
def test_a_daemon_that_does_not_start_ends_on_the_old_release(
    cluster_file: Path, workload: Workload, before: Observation, unit: str, program: str
):
    counted = rows()
    with broken(unit, program):
        result = play(cluster_file, "upgrade_slurm.yml")
        print(result.stdout[-8000:])
        assert result.returncode != 0
        text = " ".join(result.stdout.split())
        for part in ("Slurm 24.11 is back", "Lost: what users submitted", "broken by the test"):
            assert part in text
        is_as_before(workload, before, counted)


def test_the_upgrade_under_jobs(cluster_file: Path, workload: Workload, before: Observation, exits: dict[str, str]):
    counted = rows()
    result = play(cluster_file, "upgrade_slurm.yml", "-e", "upgrade_serial=1")
    print(result.stdout[-8000:])
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
    assert {machine: installed(machine) for machine in MACHINES} == {key: {NEW} for key in MACHINES}
    assert serves(NEW)
    findings = judge(before, workload.observe())
    assert not findings, summary(findings)
    assert rows() == counted
    assert on("ctl1", f"stat --format=%a:%U {FOLDER}; stat --format=%a {FOLDER}/*.sql {FOLDER}/*.tar").split() == [
        "700:root",
        *["600"] * 3,
    ]
    for node in NODES:
        on(node, f"touch {GO}")
    query = f"sacct -D --allocations --noheader --parsable2 --jobs={','.join(exits)} --format=JobIDRaw,State,ExitCode,Restarts"
    for _ in range(60):
        found = [line.split("|") for line in on("ctl1", query).splitlines()]
        if not any(row[1] == "RUNNING" for row in found):
            break
        time.sleep(1)
    assert sorted((row[0], row[2], row[3]) for row in found) == sorted((job, code, "0") for job, code in exits.items())


def test_a_second_call_and_the_scheduler_change_nothing(cluster_file: Path, workload: Workload, before: Observation):
    second = play(cluster_file, "upgrade_slurm.yml")
    assert changes(second) == {0}
    assert "Nothing is pending" in " ".join(second.stdout.split())
    assert changes(play(cluster_file, "scheduler.yml", "--diff")) == {0}
    assert on("ctl1", "srun --account=research --nodelist=gpu02 --mem=20 hostname") == "gpu02"
    assert on("login1", "sinfo --noheader --format=%N") == "gpu[01-02]"
