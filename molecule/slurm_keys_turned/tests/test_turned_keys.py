# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys are replaced under jobs: each ends once with its own exit code, no srun is refused, a node that was off is back by one run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lab import scenario_run
from lab.host import inspect
from lab.paths import ROOT, state_of
from lab.podman import Podman
from tests.kit import rolls

SCENARIO = "slurm_keys_turned"
ssh = partial(rolls.ssh, SCENARIO)
CLUSTER_FILE = ROOT / f"molecule/{SCENARIO}/{SCENARIO}.bedplate.yml"
SECRETS = state_of(f"molecule-{SCENARIO}") / "secrets"
MACHINES = ("ctl1", "login1", "cpu01", "cpu02")
OFF = "cpu03"
JOBS = 50
MUNGE, JWT = "/etc/munge/munge.key", "/etc/slurm/jwt_hs256.key"
OUT, OVER = "/run/bedplate-steps", "/run/bedplate-over"
WINDOW = 120
"""Seconds; Slurm's credentials of jobs live as long."""
PAIR = "bedplate-munge-pair.service"


def play(playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return scenario_run.run(SCENARIO, ROOT / f"playbooks/{playbook}.yml", CLUSTER_FILE, *arguments)


def turn(*arguments: str) -> str:
    """Run the playbook to a good end; return its output, in which no line is broken."""
    done = play("turn_keys", *arguments)
    assert done.returncode == 0, done.stdout[-8000:]
    return " ".join(done.stdout.split())


def digests(path: str, *machines: str) -> dict[str, str]:
    return {name: ssh(name, f"sha256sum < {path}").split()[0] for name in machines}


def until(holds: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(2)
    return held


def family(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in family(int(child)))]


def states() -> dict[str, str]:
    lines = ssh("ctl1", "sinfo --Node --noheader --format='%N %T'").splitlines()
    return {line.split()[0]: line.split()[1] for line in lines}


def podman(verb: str, machine: str) -> None:
    found = Podman(inspect())
    (container,) = [one for one in found.containers(f"molecule-{SCENARIO}") if one.machine == machine]
    found(verb, container.id)


@pytest.fixture(scope="module")
def without_node():
    """Switch one node off until the end, or until a test switches it on."""
    podman("stop", OFF)
    assert until(lambda: states()[OFF].startswith("down"), 180), states()
    yield
    podman("start", OFF)


def submit() -> dict[str, str]:
    """Submit jobs that run through the turn, end in it and start in it; return id -> exit code.

    Some start a step each second until OVER exists, on their first node. The others need some minutes, a few at a time.
    """
    common = "sbatch --parsable --account=research --output=/dev/null --mem=20 --ntasks=1"
    loop = f"while ! test -e {OVER}; do srun --ntasks=1 --mem=10 true || echo LOST >> {OUT}; sleep 1; done; exit 3"
    lines = [(f"{common} --nodelist={name} --wrap='{loop}'", "3:0") for name in ("cpu01", "cpu02")]
    lines += [(f"{common} --nodes=2 --ntasks=2 --wrap='srun sleep {seconds}; exit 4'", "4:0") for seconds in (240, 400)]
    lines += [(f"{common} --array=0-1 --wrap='sleep 60; exit 5'", "5:0")]
    lines += [(f"{common} --wrap='sleep {5 + n * 7 % 90}; exit {n % 3}'", f"{n % 3}:0") for n in range(JOBS - 6)]
    found = {}
    for start in range(0, len(lines), 12):
        part = lines[start : start + 12]
        ids = [word.split(";")[0] for word in ssh("ctl1", "; ".join(line for line, _ in part)).split()]
        found.update(zip(ids, [code for _, code in part], strict=True))
    return found


def ended(jobs: Collection[str]) -> list[tuple[str, str, str]]:
    """Wait until no job is left; return job, exit code and restarts of each row of accounting that these jobs have."""
    assert until(lambda: not ssh("ctl1", "squeue --noheader --all").strip(), 600)
    time.sleep(3)
    form = "--format=JobID,ExitCode,Restarts"
    rows = ssh("ctl1", f"sacct -D --allocations --noheader --parsable2 --starttime=now-1hour {form}").split()
    found = [row.split("|") for row in rows]
    return [(job, code, restarts) for job, code, restarts in found if job.split("_")[0] in jobs]


def test_who_is_not_reached_is_named_and_nothing_changes(without_node: None):
    before = (digests(MUNGE, *MACHINES), sorted(path.name for path in SECRETS.iterdir()))
    done = play("turn_keys", "-e", "turn_keys=munge_key")
    text = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert f"{OFF}: no answer by SSH" in text
    assert f"-e turn_keys_without={OFF}" in text
    assert (digests(MUNGE, *MACHINES), sorted(path.name for path in SECRETS.iterdir())) == before


def test_all_keys_are_turned_under_jobs(without_node: None):
    for name in ("cpu01", "cpu02"):
        ssh(name, f"rm -f {OUT} {OVER}")
    old = {MUNGE: digests(MUNGE, *MACHINES), JWT: digests(JWT, "ctl1")}
    jobs = submit()
    assert until(lambda: "RUNNING" in ssh("ctl1", "squeue --noheader --format=%T"), 60)
    said = turn(
        "-e", "turn_keys=munge_key,jwt_key", "-e", f"turn_keys_without={OFF}", "-e", f"turn_keys_window={WINDOW}"
    )
    assert "finished" in said
    assert f"{OFF}: old key" in said
    for name in ("cpu01", "cpu02"):
        ssh(name, f"touch {OVER}")

    new = {MUNGE: digests(MUNGE, *MACHINES), JWT: digests(JWT, "ctl1")}
    assert len(set(new[MUNGE].values())) == 1
    assert set(new[MUNGE].values()).isdisjoint(old[MUNGE].values())
    assert new[JWT] != old[JWT]
    assert {states()[name] for name in ("cpu01", "cpu02")} <= {"mixed", "allocated", "idle"}
    rows = ended(jobs)
    expected = sorted((job, code, "0") for job, code in jobs.items() if code != "5:0")
    array = next(job for job, code in jobs.items() if code == "5:0")
    assert sorted(row for row in rows if not row[0].startswith(f"{array}_")) == expected
    assert sorted(row[1:] for row in rows if row[0].startswith(f"{array}_")) == [("5:0", "0")] * 2
    for name in ("cpu01", "cpu02"):
        assert ssh(name, f"cat {OUT} 2>/dev/null || true") == ""
    assert ssh("login1", "srun --account=research --mem=20 hostname").strip() in ("cpu01", "cpu02")


def nothing_is_left(*machines: str) -> bool:
    """Return whether machines have one key and one munged, where clients find it."""
    for name in machines:
        assert ssh(name, "ls -A /etc/munge").split() == ["munge.key"]
        assert ssh(name, "systemctl list-unit-files --no-legend 'bedplate-munge*' || true").strip() == ""
        assert ssh(name, "ls /etc/systemd/system/munge.service.d 2>/dev/null || true").strip() == ""
        assert ssh(name, "systemctl show --property=NeedDaemonReload --value munge").strip() == "no"
        assert ssh(name, "pgrep --count munged").strip() == "1"
    return True


def test_nothing_of_the_turn_is_left(without_node: None):
    assert not [path.name for path in SECRETS.iterdir() if path.name.endswith(("_next", "_old"))]
    assert json.loads((SECRETS / "turn_keys.json").read_text())["stage"] == "finished"
    assert nothing_is_left(*MACHINES)


def test_a_rerun_and_an_ordinary_run_change_nothing(without_node: None):
    started = {name: ssh(name, "systemctl show --property=ActiveEnterTimestamp munge") for name in MACHINES}
    assert "nothing to do" in turn()
    done = play("scheduler", f"--limit=!{OFF}")
    assert done.returncode == 0, done.stdout[-6000:]
    assert {one["changed"] for one in scenario_run.recap(done.stdout).values()} == {0}
    assert {name: ssh(name, "systemctl show --property=ActiveEnterTimestamp munge") for name in MACHINES} == started


def test_a_token_of_the_new_key_works():
    token = ssh("ctl1", "scontrol token lifespan=300").strip().partition("=")[2]
    assert token
    request = f"urllib.request.Request('http://127.0.0.1:6820/slurm/v0.0.41/ping', headers={{'X-SLURM-USER-TOKEN': '{token}'}})"
    program = f"import urllib.request; print(urllib.request.urlopen({request}, timeout=20).read().decode())"
    assert json.loads(ssh("ctl1", f'python3 -c "{program}"'))["errors"] == []


def test_the_node_that_was_off_is_back_by_one_ordinary_run(without_node: None):
    podman("start", OFF)
    assert until(lambda: scenario_run.ssh(SCENARIO, "root", OFF, "true").returncode == 0, 120)
    done = play("scheduler", f"--limit={OFF}")
    assert done.returncode == 0, done.stdout[-6000:]
    assert digests(MUNGE, OFF)[OFF] == digests(MUNGE, "ctl1")["ctl1"]
    assert until(lambda: states()[OFF] == "idle", 180), states()
    assert ssh("ctl1", f"srun --account=research --mem=20 --nodelist={OFF} hostname").strip() == OFF


def killed_in_the_window(log: Path) -> None:
    """Begin a turn, and kill it when all machines make credentials with the new key."""
    arguments = ("-e", "turn_keys=munge_key", "-e", "turn_keys_window=3600")
    command = scenario_run.command(SCENARIO, ROOT / "playbooks/turn_keys.yml", CLUSTER_FILE, *arguments)
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=scenario_run.environment(SCENARIO), stdout=output, stderr=output, start_new_session=True
        )
        assert until(lambda: "have expired" in log.read_text(), 300), log.read_text()[-4000:]
        # Workers of Ansible have sessions of their own.
        for pid in family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def runs_on(name: str) -> bool:
    return ssh("ctl1", f"srun --account=research --mem=20 --nodelist={name} hostname").strip() == name


def back_up(name: str) -> None:
    podman("start", name)
    assert until(lambda: scenario_run.ssh(SCENARIO, "root", name, "true").returncode == 0, 120)


def test_a_node_in_the_window_starts_again_with_both_keys_or_is_named(tmp_path: Path):
    """The turn is killed in the window; a node is rebooted there, another one switched off; the next calls continue."""
    old = digests(MUNGE, *MACHINES, OFF)
    killed_in_the_window(tmp_path / "log")
    podman("stop", "cpu02")
    back_up("cpu02")
    assert until(lambda: states()["cpu02"] == "idle", 120), states()
    assert ssh("cpu02", f"systemctl is-active {PAIR}").strip() == "active"
    assert runs_on("cpu02")

    podman("stop", OFF)
    assert until(lambda: states()[OFF].startswith("down"), 180), states()
    done = play("turn_keys", "-e", "turn_keys_window=0")
    text = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert f"{OFF}: no answer by SSH" in text
    assert digests(MUNGE, *MACHINES) == {name: old[name] for name in MACHINES}
    assert "finished" in turn("-e", f"turn_keys_without={OFF}", "-e", "turn_keys_window=0")
    assert set(digests(MUNGE, *MACHINES).values()).isdisjoint(old.values())
    assert nothing_is_left(*MACHINES)

    back_up(OFF)
    done = play("scheduler", f"--limit={OFF}")
    assert done.returncode == 0, done.stdout[-6000:]
    assert digests(MUNGE, OFF)[OFF] == digests(MUNGE, "ctl1")["ctl1"]
    assert nothing_is_left(OFF)
    assert until(lambda: states()[OFF] == "idle", 180), states()
    assert runs_on(OFF)
    done = play("scheduler", f"--limit={OFF}")
    assert {one["changed"] for one in scenario_run.recap(done.stdout).values()} == {0}


def test_a_turn_is_given_up_after_the_switch(tmp_path: Path):
    old = digests(MUNGE, *MACHINES, OFF)
    killed_in_the_window(tmp_path / "log")
    assert "given up" in turn("-e", "turn_keys=back", "-e", "turn_keys_window=5")
    assert digests(MUNGE, *MACHINES, OFF) == old
    assert nothing_is_left(*MACHINES, OFF)
    assert not [path.name for path in SECRETS.iterdir() if path.name.endswith(("_next", "_old"))]
    assert set(states().values()) == {"idle"}
    assert runs_on("cpu01")
