# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's machine is lost under 20 jobs and restored on a new one: jobs of the backup complete, all others are named."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import machines, nodes, scenario_run
from lab.host import inspect
from lab.paths import ROOT
from lab.podman import Podman
from tests.kit.backups import PASSPHRASE, Keys, make_keys

SCENARIO = "slurm_restore"
LAB = f"molecule-{SCENARIO}"
CLUSTER_PATH = ROOT / f"molecule/{SCENARIO}/{SCENARIO}.bedplate.yml"
NODES = ["gpu01", "gpu02"]
GO = "/run/bedplate-kit-end"
"""Jobs end once it exists on their node."""
HALF = 10


def shell(machine: str, command: str) -> subprocess.CompletedProcess[str]:
    return scenario_run.ssh(SCENARIO, "root", machine, command)


def on(machine: str, command: str) -> str:
    done = shell(machine, command)
    assert done.returncode == 0, f"{machine}: {command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def until(holds: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(1)
    return held


def play(playbook: str, *arguments: str, file: Path = CLUSTER_PATH) -> subprocess.CompletedProcess[str]:
    done = scenario_run.run(SCENARIO, ROOT / "playbooks" / playbook, file, *arguments)
    print(done.stdout[-6000:], done.stderr[-1000:])
    return done


def text(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join(done.stdout.split())


def changes(done: subprocess.CompletedProcess[str]) -> set[int]:
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return {counters["changed"] for counters in scenario_run.recap(done.stdout).values()}


def jobs_on(node: str) -> set[int]:
    steps = on(node, "ps -eo args= | sed -n 's/^slurmstepd: \\[\\([0-9]*\\)[.].*/\\1/p'")
    return {int(one) for one in steps.split()}


def running() -> set[int]:
    return {int(one) for one in on("ctl1", "squeue --noheader --states=RUNNING --format=%A").split()}


def submit() -> list[int]:
    """Submit jobs to both nodes, and return their ids once slurmctld and slurmd both run them."""
    wait = f"while [ ! -e {GO} ]; do sleep 1; done"
    command = f"sbatch --parsable --account=research --output=/dev/null --mem=20 --chdir=/tmp --wrap='{wait}'"
    found = [int(on("ctl1", command)) for _ in range(HALF)]
    assert until(lambda: set(found) <= running() & (jobs_on("gpu01") | jobs_on("gpu02")), 90), on(
        "ctl1", "squeue --all"
    )
    return found


@dataclass
class Lost:
    """What was there before the controller was lost."""

    before: list[int]
    after: list[int]
    file: Path
    arguments: list[str]
    rows: int


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def lost(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Lost:
    """Ten jobs, a backup, ten more jobs; then the container of the controller is destroyed, and made again from the image."""
    for node in NODES:
        on(node, f"rm -f {GO}")
    before = submit()
    folder = tmp_path_factory.mktemp("backups")
    chosen = ["-e", f"backup_recipient={keys.public}", "-e", f"backup_to={folder}"]
    preview = play("backup.yml", "--check", *chosen)
    assert preview.returncode == 0
    assert list(folder.iterdir()) == []
    done = play("backup.yml", *chosen)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    (file,) = folder.glob("*.backup")
    assert file.stat().st_mode & 0o777 == 0o600
    jobs = on("ctl1", "date; squeue --all --format='%A %T %r %S %V'")
    assert f"{HALF} running and 0 waiting jobs" in text(done), jobs
    assert b"research" not in file.read_bytes()
    assert b"molecule_job_table" not in file.read_bytes()
    on("ctl1", "test $(stat --format=%a:%U /var/backups/bedplate) = 700:root")
    assert on("ctl1", "find /run /dev/shm /tmp /var/backups -name 'bp-*' -o -name '.work-*' -o -name '*.sql'") == ""
    rows = int(on("ctl1", "mariadb -N slurm_acct_db -e 'SELECT COUNT(*) FROM molecule_job_table'"))
    after = submit()
    assert jobs_on("gpu01") | jobs_on("gpu02") == {*before, *after}

    podman = Podman(inspect())
    podman("rm", "--force", "--time", "0", nodes.container_name(LAB, "ctl1"))
    nodes.create(podman, LAB, machines.read(CLUSTER_PATH.parent))
    assert shell("ctl1", "command -v slurmctld").returncode != 0
    passphrase = folder.parent / "passphrase"
    passphrase.write_bytes(PASSPHRASE)
    passphrase.chmod(0o600)
    arguments = ["-e", f"restore_from={file}", "-e", f"restore_key={keys.private}"]
    return Lost(before, after, file, [*arguments, "-e", f"restore_passphrase_file={passphrase}"], rows)


def test_it_is_refused_while_jobs_would_be_ended(lost: Lost):
    for check in (["--check"], []):
        done = play("restore.yml", *lost.arguments, *check)
        assert done.returncode != 0
        for job in lost.after:
            assert f"job {job}: runs on gpu" in text(done)
        for job in lost.before:
            assert f"job {job}:" not in text(done)
        assert "restore_loses_jobs=accept" in text(done)
    assert shell("ctl1", "command -v slurmctld").returncode != 0
    assert jobs_on("gpu01") | jobs_on("gpu02") == {*lost.before, *lost.after}


def test_a_wrong_key_or_cluster_is_refused(lost: Lost, keys: Keys, tmp_path: Path):
    other = play("restore.yml", "-e", f"restore_from={lost.file}", "-e", f"restore_key={keys.other}")
    assert other.returncode != 0
    assert "cannot be decrypted" in text(other)
    half = tmp_path / lost.file.name
    half.write_bytes(lost.file.read_bytes()[: lost.file.stat().st_size // 2])
    short = play("restore.yml", *lost.arguments, "-e", f"restore_from={half}")
    assert short.returncode != 0
    assert "cut short" in text(short) or "cannot be read" in text(short)
    file = tmp_path / CLUSTER_PATH.name
    file.write_text(CLUSTER_PATH.read_text().replace("cluster: molecule", "cluster: elsewhere"))
    wrong = play("restore.yml", *lost.arguments, file=file)
    assert wrong.returncode != 0
    assert "is of cluster molecule, and the cluster file has elsewhere" in text(wrong)


def test_jobs_of_the_backup_complete_on_the_new_controller(lost: Lost):
    done = play("restore.yml", *lost.arguments, "-e", "restore_loses_jobs=accept")
    assert done.returncode == 0, done.stdout[-12000:] + done.stderr[-2000:]
    assert f"{HALF} of {HALF} jobs of the backup run on" in text(done)
    for job in lost.after:
        assert f"job {job}: runs on gpu" in text(done)
    assert running() == set(lost.before)
    assert until(lambda: jobs_on("gpu01") | jobs_on("gpu02") == set(lost.before), 60)
    count = int(on("ctl1", "mariadb -N slurm_acct_db -e 'SELECT COUNT(*) FROM molecule_job_table'"))
    assert count == lost.rows
    assert on("ctl1", "stat --format=%U /var/lib/slurm/slurmctld/job_state") == "slurm"
    assert (
        on("ctl1", "find /run /dev/shm /tmp /var/lib/bedplate -name 'bp-*' -o -name '.work-*' -o -name '*.backup'")
        == ""
    )
    new = int(on("ctl1", "sbatch --parsable --account=research --output=/dev/null --mem=20 --chdir=/tmp --wrap=true"))
    assert new > max(lost.after)
    for node in NODES:
        on(node, f"touch {GO}")
    query = f"sacct -D --allocations --noheader --parsable2 --jobs={','.join(map(str, lost.before))} --format=JobIDRaw,State,ExitCode"
    assert until(lambda: "RUNNING" not in on("ctl1", query), 90), on("ctl1", query)
    found = sorted(on("ctl1", query).splitlines())
    assert found == sorted(f"{job}|COMPLETED|0:0" for job in lost.before)


def test_a_second_call_and_the_scheduler_change_nothing(lost: Lost):
    second = play("restore.yml", *lost.arguments)
    assert changes(second) == {0}
    assert "Nothing is left to do" in text(second)
    assert changes(play("scheduler.yml", "--diff")) == {0}
    assert on("ctl1", "srun --account=research --nodelist=gpu02 --mem=20 hostname") == "gpu02"


def test_the_timer_makes_the_same_backup(lost: Lost, keys: Keys, tmp_path: Path):
    options = json.dumps({"slurm_backup": {"recipient": str(keys.public), "keep": 2}})
    assert max(changes(play("scheduler.yml", "-e", options))) == 1
    assert changes(play("scheduler.yml", "-e", options)) == {0}
    assert "bedplate-backup.timer" in on("ctl1", "systemctl list-timers --all --no-legend")
    for _ in range(3):
        on("ctl1", "systemctl start bedplate-backup.service")
        time.sleep(1)
    files = on("ctl1", "ls /var/backups/bedplate/*.backup").split()
    assert len(files) == 2
    assert on("ctl1", "stat --format=%a:%U /var/backups/bedplate/*.backup").split() == ["600:root"] * 2
    assert '"running": 0' in on("ctl1", "journalctl --unit=bedplate-backup --no-pager --output=cat")
    copy = tmp_path / Path(files[-1]).name
    copy.write_bytes(base64.b64decode(on("ctl1", f"base64 {files[-1]}")))
    chosen = [*lost.arguments, "-e", f"restore_from={copy}"]
    refused = play("restore.yml", "--check", *chosen)
    assert refused.returncode != 0
    assert "ctl1: slurmctld runs" in text(refused)
    preview = play("restore.yml", "--check", *chosen, "-e", "restore_over=true")
    assert preview.returncode == 0
    assert "tables with" in text(preview)
    # A failure is seen, and removes nothing.
    on("ctl1", "echo no key >/etc/bedplate/backup-recipient.asc")
    assert shell("ctl1", "systemctl start bedplate-backup.service").returncode != 0
    assert on("ctl1", "ls /var/backups/bedplate/*.backup").split() == files
    assert on("ctl1", "ls -A /var/backups/bedplate | grep -v '[.]backup$' || true") == ""
    off = json.dumps({"slurm_backup": {"enabled": False}})
    assert max(changes(play("scheduler.yml", "-e", off))) == 1
    assert shell("ctl1", "test -e /etc/systemd/system/bedplate-backup.timer").returncode != 0
