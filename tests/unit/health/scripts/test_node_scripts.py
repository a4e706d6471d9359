# SPDX-License-Identifier: GPL-3.0-or-later
"""The epilog records jobs, the health check restarts a dead agent once an hour, and slurmd waits for the first verdict."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.health.scripts.script_node import BOOT, UPTIME, ScriptNode, shells

OTHER_BOOT = "99999999-2222-3333-4444-555555555555"
JOB = {"SLURM_JOB_ID": "4711", "SLURM_JOB_UID": "1000", "SLURM_JOB_START_TIME": "1790000000"}
HOUR = 3600


@pytest.fixture(params=shells())
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def node(tmp_path: Path) -> ScriptNode:
    return ScriptNode(tmp_path)


def epilog(node: ScriptNode, shell: str, **env: str) -> list[str]:
    done = node.run(node.script("bedplate-epilog.sh"), shell, options=["-u"], **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ring = node.health / "jobs"
    return ring.read_text().splitlines() if ring.is_file() else []


def test_a_job_is_recorded_with_its_user_start_and_end(node, shell):
    assert epilog(node, shell, **JOB) == [f"4711 1000 1790000000 {UPTIME}"]
    node.uptime(6000)
    assert epilog(node, shell, **{**JOB, "SLURM_JOB_ID": "4712"})[1:] == ["4712 1000 1790000000 6000"]


@pytest.mark.parametrize("start", ["", "soon", "-5", "12345678901", "1 2", "$(touch X)"])
def test_a_start_that_is_not_known_is_a_dash(node, shell, start):
    assert epilog(node, shell, **{**JOB, "SLURM_JOB_START_TIME": start}) == [f"4711 1000 - {UPTIME}"]


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_JOB_UID"])
@pytest.mark.parametrize("value", [None, "", "x", "1\n2 3", "-1", "1 2", "12345678901", "$(touch X)", "*"])
def test_a_job_without_a_number_is_not_recorded(node, shell, name, value):
    env = {key: text for key, text in {**JOB, name: value}.items() if text is not None}
    assert epilog(node, shell, **env) == []


@pytest.mark.parametrize("kind", ["no directory", "pipe", "directory", "full", "no uptime"])
def test_a_ring_that_cannot_be_written_fails_no_epilog(node, shell, kind):
    ring = node.health / "jobs"
    if kind == "no directory":
        shutil.rmtree(node.health)
    elif kind == "pipe":
        os.mkfifo(ring)
    elif kind == "directory":
        ring.mkdir()
    elif kind == "full":
        ring.symlink_to("/dev/full")
    else:
        (node.folder / "proc/uptime").write_text("x\n")
    assert [line for line in epilog(node, shell, **JOB) if line] == []


@pytest.mark.parametrize("name", ["bedplate-epilog.sh", "bedplate-health-check.sh", "bedplate-node-clean.sh"])
def test_an_error_of_the_shell_itself_fails_nothing(node, shell, name):
    script = node.script(name, ("trap 'exit 0' EXIT\n", "trap 'exit 0' EXIT\nfound=$((08))\n"))
    assert node.run(script, shell, **JOB).returncode == 0


def checks(node: ScriptNode, shell: str, times: int = 1) -> list[str]:
    """Return the calls of systemctl by some health checks, one after the other."""
    log = node.folder / "systemctl.log"
    if not log.exists():
        node.stub("systemctl", "exit 1")
        log.touch()
    before = len(log.read_text().splitlines())
    for _ in range(times):
        assert node.run(node.script("bedplate-health-check.sh"), shell, options=["-u"]).returncode == 0
    return log.read_text().splitlines()[before:]


RESTART = ["--no-block restart bedplate-health.service"]


def alive(written: int, boot: str = BOOT) -> str:
    return f"1 ok {boot} {written} 180 - \n"


@pytest.mark.parametrize(
    ("verdict", "uptime", "restarts"),
    [
        (alive(UPTIME), UPTIME, False),
        (alive(UPTIME - 540), UPTIME, False),
        (alive(UPTIME - 541), UPTIME, True),
        (alive(UPTIME + 100), UPTIME, True),
        (alive(UPTIME, OTHER_BOOT), UPTIME, True),
        (alive(10, OTHER_BOOT), 600, False),
        (f"2 ok {BOOT} {UPTIME} 180 -\n", UPTIME, True),
        (f"1 ok {BOOT} 08 180 -\n", UPTIME, True),
        (f"1 ok {BOOT} now 180 -\n", UPTIME, True),
        (f"1 ok {BOOT}\n", UPTIME, True),
        (f"1 ok {BOOT} {UPTIME} {2**63} -\n", UPTIME, True),
        ("", UPTIME, True),
        (None, 600, False),
        (None, 601, True),
    ],
)
def test_only_a_dead_agent_is_restarted(node, shell, verdict, uptime, restarts):
    node.uptime(uptime)
    if verdict is not None:
        node.verdict(verdict)
    assert checks(node, shell) == (RESTART if restarts else [])


def test_a_dead_agent_is_restarted_once_an_hour(node, shell):
    assert checks(node, shell, 3) == RESTART
    node.uptime(UPTIME + HOUR - 1)
    assert checks(node, shell, 2) == []
    node.uptime(UPTIME + HOUR)
    assert checks(node, shell, 2) == RESTART


def test_another_boot_has_another_hour(node, shell):
    assert checks(node, shell) == RESTART
    (node.folder / "proc/sys/kernel/random/boot_id").write_text(f"{OTHER_BOOT}\n")
    assert checks(node, shell) == RESTART


def test_an_agent_that_never_started_is_started(node, shell):
    shutil.rmtree(node.health.parent)
    assert checks(node, shell, 2) == RESTART


@pytest.mark.parametrize("name", ["proc/uptime", "proc/sys/kernel/random/boot_id"])
@pytest.mark.parametrize("text", [None, "x"])
def test_at_an_unknown_time_nothing_is_restarted(node, shell, name, text):
    log = node.stub("systemctl")
    (node.folder / name).unlink()
    if text:
        (node.folder / name).write_text(text)
    assert node.run(node.script("bedplate-health-check.sh"), shell).returncode == 0
    assert not log.exists()


@pytest.mark.parametrize("kind", ["pipe", "directory", "full", "no folder"])
def test_without_a_marker_nothing_is_restarted(node, shell, kind):
    marker = node.folder / "run/bedplate-health.restarted"
    if kind == "pipe":
        os.mkfifo(marker)
    elif kind == "directory":
        marker.mkdir()
    elif kind == "full":
        marker.symlink_to("/dev/full")
    else:
        shutil.rmtree(marker.parent)
    assert checks(node, shell) == []


@pytest.mark.parametrize("text", ["", "x", f"{BOOT} 08\n", f"{BOOT} {2**63}\n"])
def test_a_broken_marker_counts_as_missing(node, shell, text):
    (node.folder / "run/bedplate-health.restarted").write_text(text)
    assert checks(node, shell, 2) == RESTART


def test_a_marker_of_the_future_would_hold_for_ever(node, shell):
    (node.folder / "run/bedplate-health.restarted").write_text(f"{BOOT} {UPTIME + 9999}\n")
    assert checks(node, shell) == RESTART


def test_a_hung_verdict_hangs_no_check(node, shell):
    os.mkfifo(node.health / "verdict")
    assert checks(node, shell) == RESTART


@pytest.mark.parametrize(("arguments", "status"), [([], 0), (["strict"], 1), (["other"], 0)])
def test_slurmd_waits_for_a_verdict_of_this_boot(node, shell, arguments, status):
    node.verdict(alive(10, OTHER_BOOT))
    node.stub("sleep")
    script = node.script("bedplate-health-ready.sh", ("limit=300", "limit=3"))
    done = node.run(script, shell, arguments)
    assert done.returncode == status
    assert "no verdict" in done.stderr
    assert (node.folder / "sleep.log").read_text().splitlines() == ["1"] * 3


@pytest.mark.parametrize("state", ["ok", "unknown", "fail"])
def test_slurmd_starts_with_the_first_verdict(node, shell, state):
    first = f"1 {state} {BOOT} 10 180 cannot-run"
    node.stub("sleep", f'echo "{first}" >{node.health}/verdict')
    done = node.run(node.script("bedplate-health-ready.sh"), shell, ["strict"])
    assert (done.returncode, done.stderr) == (0, "")
    assert len((node.folder / "sleep.log").read_text().splitlines()) == 1


def test_an_unknown_boot_has_no_verdict(node, shell):
    node.verdict("1 ok\n")
    (node.folder / "proc/sys/kernel/random/boot_id").unlink()
    node.stub("sleep")
    assert node.run(node.script("bedplate-health-ready.sh"), shell, ["strict"], ["-u"]).returncode == 1
