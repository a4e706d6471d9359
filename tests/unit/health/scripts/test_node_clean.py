# SPDX-License-Identifier: GPL-3.0-or-later
"""After a job its user's strays and files in /dev/shm are removed, unless the user has another job, a login or an unknown process there.

The processes are real, of users that this machine does not have; the groups they are in are the test's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.health.scripts.script_node import ScriptNode, is_root, shells

pytestmark = pytest.mark.skipif(not is_root(), reason="starts processes of other users")
# Another process of tests beside this one must not be the same user's.
USER, OTHER_USER = 10_000_000 + os.getpid(), 20_000_000 + os.getpid()
NAME = "bedplate-node-clean.sh"
OWN_V2 = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0"
OWN_V1 = "12:freezer:/slurm/uid_5/job_7/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service"
SERVICE = "0::/user.slice/user-54321.slice/user@54321.service/app.slice/run-1.scope"
CRON = "3:cpu:/\n1:name=systemd:/system.slice/cron.service"


class CleanNode:
    """A node with processes of users; each has the groups that a test states."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.node = ScriptNode(folder)
        self.shell = shell
        self.shm = folder / "dev/shm"
        self.groups = folder / "groups"
        self.groups.mkdir()
        self.slurm = folder / "sys/fs/cgroup/system.slice/slurmstepd.scope"
        self.slurm.mkdir(parents=True)
        self.started: list[subprocess.Popen[bytes]] = []
        # The files of the job are older than the epilog.
        self.file("mine", USER)
        time.sleep(0.02)

    def start(self, groups: str | None, user: int = USER, program: str = "exec sleep 60") -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sh", "-c", program], user=user, group=user, extra_groups=[], cwd="/")
        self.started.append(process)
        if groups is not None:
            (self.groups / str(process.pid)).write_text(f"{groups}\n")
        return process

    def file(self, name: str, user: int) -> Path:
        path = self.shm / name
        path.write_text("x")
        os.chown(path, user, user)
        return path

    def clean(self, *changes: tuple[str, str], **env: str) -> None:
        moved = ("/proc/$process/cgroup", f"{self.groups}/$process")
        script = self.node.script(NAME, moved, *changes)
        given = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": str(USER), "SLURM_JOB_USER": "ann", **env}
        done = self.node.run(script, self.shell, options=["-u"], **given)
        assert (done.returncode, done.stdout) == (0, "")
        assert [path.name for path in self.node.health.iterdir()] == []

    def alive(self) -> list[bool]:
        return [process.poll() is None for process in self.started]

    def files(self) -> list[str]:
        return sorted(path.name for path in self.shm.iterdir())


@pytest.fixture(params=shells())
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CleanNode]:
    made = CleanNode(tmp_path, request.param)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("groups", [SERVICE, CRON])
def test_a_stray_is_ended_and_then_the_files_are_removed(node, groups):
    node.start(groups)
    _clean_and_reap(node)
    assert (node.alive(), node.files()) == ([False], [])


def _clean_and_reap(node: CleanNode) -> None:
    """Clean while the parent of the processes waits for them, as PID 1 does for strays."""
    for process in node.started:
        threading.Thread(target=process.wait, daemon=True).start()
    node.clean()


def test_a_stray_that_ignores_sigterm_is_killed(node):
    node.start(SERVICE, program="trap '' TERM; exec sleep 60")
    time.sleep(0.2)
    _clean_and_reap(node)
    assert node.started[0].wait(5) == -9


def test_a_process_that_ends_meanwhile_counts_no_more(node):
    node.node.stub("find", '[ "$1" != /proc ] || echo 4194305\nexec /usr/bin/find "$@"')
    node.start(SERVICE)
    _clean_and_reap(node)
    assert (node.alive(), node.files()) == ([False], [])


def test_a_process_whose_directory_in_proc_is_roots_is_a_process_of_its_user(node):
    """So it is for a program that sets users, and where a program may not be read; the latter is not so on every kernel of the tests."""
    program = f"import os, time; os.setresuid({USER}, 0, 0); time.sleep(60)"
    solver = node.start(
        OWN_V2.replace("job_7", "job_8"), user=0, program=f"exec {shutil.which('python3')} -c '{program}'"
    )
    status, until = Path(f"/proc/{solver.pid}/status"), time.monotonic() + 20
    while f"Uid:\t{USER}\t0" not in status.read_text() and time.monotonic() < until:
        time.sleep(0.05)
    assert status.parent.stat().st_uid == 0
    node.start(SERVICE)
    node.clean()
    assert (node.alive(), node.files()) == ([True, True], ["mine"])


OWN = [OWN_V2, OWN_V1, "0::/system.slice/slurmstepd.scope/job_7"]


@pytest.mark.parametrize("groups", OWN)
def test_a_stray_is_ended_beside_a_process_of_the_job(node, groups):
    node.start(SERVICE)
    node.start(groups)
    _clean_and_reap(node)
    assert node.started[0].wait(5) != 0
    assert (node.started[1].poll(), node.files()) == (None, ["mine"])


def test_a_user_who_logs_in_meanwhile_keeps_what_is_left(node):
    first, _second = (node.start(SERVICE, program="trap '' TERM; exec sleep 60") for _ in range(2))
    time.sleep(0.2)
    node.node.stub("sleep", f"echo 0::/user.slice/session-3.scope >{node.groups}/{first.pid}; exec /bin/sleep $1")
    node.clean()
    assert (node.alive(), node.files()) == ([True, True], ["mine"])


def test_a_file_system_mounted_below_stays(node):
    (node.shm / "mounted").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(node.shm / "mounted")], check=True)
    try:
        path = node.file("mounted/theirs", USER)
        time.sleep(0.02)
        node.clean()
        assert path.exists()
    finally:
        subprocess.run(["umount", str(node.shm / "mounted")], check=True)


@pytest.mark.parametrize("groups", OWN)
def test_slurm_ends_the_processes_of_the_job_itself(node, groups):
    node.start(groups)
    node.clean()
    assert (node.alive(), node.files()) == ([True], ["mine"])


@pytest.mark.parametrize(
    "groups",
    [
        OWN_V2.replace("job_7", "job_70"),
        OWN_V2.replace("job_7", "job_8"),
        OWN_V1.replace("job_7", "job_8"),
        "0::/system.slice/node1_slurmstepd.scope/job_8/step_extern",
        "0::/system.slice/slurmd.service",
        "0::/user.slice/user-54321.slice/session-3.scope",
        "0::/system.slice/ssh.service",
        "0::/system.slice/sshd.service",
        "0::/system.slice/system-sshd.slice/sshd@1-10.0.0.1:22-10.0.0.2:5.service",
        "0::/",
        "3:cpu:/\n1:name=systemd:/",
        "",
        None,
    ],
)
def test_with_another_job_a_login_or_an_unknown_process_nothing_is_touched(node, groups):
    node.start(SERVICE)
    node.start(groups)
    node.clean()
    assert (node.alive(), node.files()) == ([True, True], ["mine"])


@pytest.mark.parametrize(
    ("folder", "owner", "is_cleaned"),
    [
        ("system.slice/slurmstepd.scope/job_8/step_extern", None, True),
        ("freezer/slurm/uid_USER/job_8/step_extern", None, True),
        ("system.slice/slurmstepd.scope/job_8/step_extern", "root", False),
        ("system.slice/node1_slurmstepd.scope/job_8/step_extern", "root", False),
        ("system.slice/slurmstepd.scope/job_8/step_0", "another", True),
        ("system.slice/slurmstepd.scope/job_7/step_extern", "root", True),
        ("freezer/slurm/uid_USER/job_8/step_extern", "root", False),
        ("freezer/slurm/uid_5/job_8/step_extern", "root", True),
    ],
)
def test_a_job_between_two_steps_is_another_job_of_its_user(node, folder, owner, is_cleaned):
    """Between the steps of salloc, and on all nodes of a job but its first, no process on the node belongs to the user."""
    path = node.node.folder / "sys/fs/cgroup" / folder.replace("USER", str(USER))
    path.mkdir(parents=True)
    stray = node.start(SERVICE)
    if owner is not None:
        other = node.start(OWN_V2.replace("job_7", "job_8"), {"root": 0, "another": OTHER_USER}[owner])
        (path / "cgroup.procs").write_text(f"4194305\n{other.pid}\n")
    _clean_and_reap(node)
    assert (stray.poll() is not None, node.files()) == (is_cleaned, [] if is_cleaned else ["mine"])


def test_another_user_keeps_processes_and_files(node):
    node.start(SERVICE, OTHER_USER)
    node.file("theirs", OTHER_USER)
    folder = node.shm / "shared"
    folder.mkdir()
    os.chown(folder, USER, USER)
    node.file("shared/theirs", OTHER_USER)
    time.sleep(0.02)
    node.clean()
    assert node.alive() == [True]
    assert sorted(path.name for path in node.shm.rglob("*")) == ["shared", "theirs", "theirs"]


def test_a_link_is_removed_and_never_followed(node, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    kept = outside / "kept"
    kept.touch()
    os.chown(outside, USER, USER)
    os.chown(kept, USER, USER)
    link = node.shm / "link"
    link.symlink_to(outside)
    os.lchown(link, USER, USER)
    time.sleep(0.02)
    node.clean()
    assert (node.files(), kept.exists()) == ([], True)


def test_a_file_of_a_job_that_begins_meanwhile_stays(node):
    begin = f"sleep 0.05; touch /dev/shm/begun; chown {USER} /dev/shm/begun"
    node.clean(("clean_shm() {\n", f"clean_shm() {{\n    {begin}\n"))
    assert node.files() == ["begun"]


def test_without_cgroups_of_slurm_nothing_is_touched(node):
    node.start(SERVICE)
    node.slurm.rmdir()
    node.clean()
    assert (node.alive(), node.files()) == ([True], ["mine"])
    version_1 = node.node.folder / "sys/fs/cgroup/freezer/slurm"
    version_1.mkdir(parents=True)
    _clean_and_reap(node)
    assert (node.alive(), node.files()) == ([False], [])


@pytest.mark.parametrize(
    "env",
    [
        {"SLURM_JOB_USER": "slurm"},
        {"SLURM_JOB_USER": "munge"},
        {"SLURM_JOB_UID": "-1"},
        {"SLURM_JOB_UID": ""},
        {"SLURM_JOB_UID": f"0{USER}"},
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "7 8"},
        {"SLURM_JOB_ID": "*"},
    ],
)
def test_users_of_the_system_and_unknown_jobs_are_left_alone(node, env):
    node.start(SERVICE)
    node.clean(**env)
    assert (node.alive(), node.files()) == ([True], ["mine"])


@pytest.mark.parametrize("user", [0, 998, 65534])
def test_a_user_with_a_number_of_the_system_is_left_alone(node, user):
    if user:
        node.start(SERVICE, user)
    path = node.file("theirs", user)
    time.sleep(0.02)
    node.clean(SLURM_JOB_UID=str(user))
    assert path.exists()
    assert node.alive() == [True] * len(node.started)


@pytest.mark.parametrize(
    ("settings", "gpus", "other", "calls"),
    [
        (True, "0,1", None, 1),
        (True, "", None, 0),
        (False, "0", None, 0),
        (True, "0", "system.slice/slurmstepd.scope/job_8", 0),
        (True, "0", "freezer/slurm/uid_5/job_8", 0),
        (True, "0", "system.slice/slurmstepd.scope/job_7", 1),
    ],
)
def test_settings_of_gpus_are_set_again_on_a_free_node_whose_profile_has_them(node, settings, gpus, other, calls):
    log = node.node.stub("systemctl")
    if settings:
        (node.node.folder / "etc/bedplate/gpu-settings.json").touch()
    if other:
        (node.node.folder / "sys/fs/cgroup" / other).mkdir(parents=True)
    node.clean(SLURM_JOB_GPUS=gpus)
    found = log.read_text().splitlines() if log.exists() else []
    assert found == ["--no-block restart bedplate-gpu-settings.service"] * calls


def test_a_process_that_no_signal_ends_does_not_hold_the_epilog(node: CleanNode) -> None:
    node.start(SERVICE)
    begin = time.monotonic()
    node.clean(('kill -s "$signal" $strays', 'true "$signal" $strays'))
    assert time.monotonic() - begin < 15
    assert node.alive() == [True]
    assert node.files() == ["mine"]
