# SPDX-License-Identifier: GPL-3.0-or-later
"""Health of nodes on the Slurm of a root of tests/kit/slurm_releases.py: real slurmctld, slurmd, agents and limiter.

Run as a program there, in a copy of the root, it reads the data of rendered_site.py from stdin and runs the tests of this file. The files
of the roles lie at their real paths. Each slurmd and each agent has mounts of its own, with the folders of its node.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.control import cluster_view, control_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.cluster_view import (
    FOREIGN,
    FREE,
    OF_SLURM,
    OURS,
    NodeState,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.health_control import Controller
from ansible_collections.bedplate.cluster.plugins.module_utils.health.control.slurm_link import SlurmLink
from tests.unit.health.control.clusters import report
from tests.unit.slurm.nodes.real_slurm import RealSlurm

DATA = Path("/run/rendered.json")
STATE = Path("/var/lib/slurm/slurmctld")
SYSTEMCTL = Path("/run/systemctl.log")
# The folders of a node that its slurmd, its scripts and its agent see under these paths.
FOLDERS = {"etc": "/etc/bedplate", "run": "/run/bedplate", "state": "/var/lib/bedplate", "tmp": "/var/lib/test"}
_MOUNTED = " && ".join([*(f'mount --bind "$0/{name}" {path}' for name, path in FOLDERS.items()), 'exec "$@"'])
REASON = "fan 3 is loud, see [RMA 7] | Bob = on it"
SITE = {"site": {"row": "a b", "slots": [1, 2]}, "z": "x=y"}


class Link(SlurmLink):
    """slurmctld runs on this machine under the name localhost."""

    def is_acting(self) -> bool:
        return True


class ReleaseSlurm(RealSlurm):
    """A Slurm whose nodes have folders of their own, and the limiter's controller with a clock that a test may move."""

    def __init__(self, folder: Path, data: dict[str, Any], **options: str) -> None:
        self.data, self.later = data, 0.0
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        # No test waits five minutes for a health check.
        given = {**data["options"], "HealthCheckInterval": "4", **options}
        super().__init__(folder, list(data["nodes"]), [f"{name}={value}" for name, value in given.items() if value])
        for name in self.names:
            for one, path in FOLDERS.items():
                Path(path).mkdir(parents=True, exist_ok=True)
                (self.at(name) / one / "health").mkdir(parents=True)
            for file in data["nodes"][name]["files"]:
                own = [one for one, path in FOLDERS.items() if file["path"].startswith(f"{path}/")]
                path = self.at(name) / file["path"].replace(FOLDERS[own[0]], own[0], 1) if own else Path(file["path"])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(file["content"])
                path.chmod(int(file["mode"], 8))
        self.controller = Controller(
            control_settings.build(data["control"]), Link(self.conf), clock=lambda: time.time() + self.later
        )

    def at(self, name: str) -> Path:
        return self.folder / "nodes" / name

    def on(self, name: str) -> list[str]:
        """Return the start of a command that runs on a node."""
        return ["unshare", "--mount", "sh", "-c", _MOUNTED, str(self.at(name))]

    def start_node(self, name: str, booted: bool = False) -> None:
        command = [*self.on(name), "slurmd", "-N", name, "-f", str(self.conf)]
        subprocess.run(command, check=True, env=self._environment(), capture_output=True)

    def start_agent(self, name: str) -> None:
        node = self.data["nodes"][name]
        log = Path(self.at(name), "tmp/kmsg")
        log.touch()
        environment = {**self._environment(), **node["environment"]}
        with (self.folder / f"agent.{name}").open("w") as output:
            # In another folder than the repository's it runs the installed code.
            self.agents[name] = subprocess.Popen(
                [*self.on(name), *node["agent"]], env=environment, cwd="/", stdout=output, stderr=output
            )

    def stop_agent(self, name: str) -> None:
        process = self.agents.pop(name)
        process.kill()
        process.wait()

    def verdict(self, name: str) -> list[str]:
        path = self.at(name) / "run/health/verdict"
        return path.read_text().split() if path.exists() else []

    def extra(self, name: str) -> dict[str, Any]:
        """Return the Extra of a node as sinfo shows it."""
        text = self.answer("sinfo", "--noheader", f"--nodes={name}", "--Format=Extra:0").strip()
        found: dict[str, Any] = {} if text == "(null)" else json.loads(text or "{}")
        return found

    def answer(self, *argv: str) -> str:
        done = subprocess.run(
            argv, env=self._environment(), cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def queue(self, node: str, *words: str) -> str:
        """Submit a job on a node, without a wait; return its id."""
        argv = ("sbatch", "--parsable", f"--nodelist={node}", f"--output={self.folder}/job.%j", "--wrap=echo started")
        return self.answer(*argv, *words).strip()

    def ends(self, job: str) -> dict[str, str]:
        self.wait(lambda: self.job(job).get("JobState") not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"))
        return self.job(job)

    def wait(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, self.scontrol("show", "node") + self.scontrol("show", "job")
            time.sleep(0.3)

    def node(self, name: str) -> NodeState:
        """Return a node as the limiter's two commands show it, which must agree; it may change between them once."""
        link = Link(self.conf)
        before, found, after = link.view().nodes[name], link.node(name), link.view().nodes[name]
        assert found
        now, boot = found
        # slurmd and the kernel round. After a resume slurmctld has no time until slurmd answers.
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        assert abs(boot - booted) < 5 or (boot == 0 and "NOT_RESPONDING" in now.states), (boot, now)
        assert now.is_as(before) or now.is_as(after), (before, now, after)
        return after


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseSlurm]:
    systemctl = Path("/usr/bin/systemctl")
    systemctl.unlink(missing_ok=True)
    systemctl.write_text(f'#!/bin/sh\necho "$*" >>{SYSTEMCTL}\n')
    systemctl.chmod(0o755)
    STATE.mkdir(parents=True, exist_ok=True)
    with ReleaseSlurm(tmp_path_factory.mktemp("slurm"), json.loads(DATA.read_text())) as found:
        yield found
        for name in list(found.agents):
            found.stop_agent(name)


def test_a_job_runs_on_an_ok_verdict_and_is_recorded(slurm: ReleaseSlurm) -> None:
    assert slurm.scontrol("update", "nodename=n1", f"extra={json.dumps(SITE)}") == ""
    slurm.start_agent("n1")
    slurm.wait(lambda: slurm.verdict("n1")[:2] == ["1", "ok"])
    done = slurm.ends(slurm.queue("n1"))
    assert (done["JobState"], done["Restarts"], done["NodeList"]) == ("COMPLETED", "0", "n1"), done
    assert not (slurm.at("n1") / "run/health/passed").exists()
    slurm.wait(lambda: (slurm.at("n1") / "run/health/jobs").exists())
    job, user, start, _end = (slurm.at("n1") / "run/health/jobs").read_text().split()
    assert (job, user) == (done["JobId"], "0")
    # Slurm gives the start from 23.02 on.
    assert (start == "-") is (slurm.data["version"] < "23.02")
    assert start == "-" or abs(int(start) - time.time()) < 60


def test_the_report_of_the_agent_is_in_extra_and_other_keys_stay(slurm: ReleaseSlurm) -> None:
    slurm.wait(lambda: "bp" in slurm.extra("n1"))
    extra = slurm.extra("n1")
    assert {key: value for key, value in extra.items() if key != "bp"} == SITE
    assert (extra["bp"]["v"], extra["bp"]["s"]) == (1, "ok")
    found = slurm.node("n1")
    assert found.report
    assert (found.report.status, found.report.boot, found.owner) == ("ok", slurm.verdict("n1")[2][:8], FREE)


def test_slurmd_runs_the_health_check_which_restarts_a_silent_agent(slurm: ReleaseSlurm) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    # Written one second after the boot, and valid for one second.
    (slurm.at("n3") / "run/health/verdict").write_text(f"1 ok {boot} 1 1 -\n")
    slurm.wait(SYSTEMCTL.exists)
    assert SYSTEMCTL.read_text() == "--no-block restart bedplate-health.service\n"
    assert slurm.ends(slurm.queue("n3"))["JobState"] == "COMPLETED"
    assert (slurm.at("n3") / "run/health/passed").read_text() == "stale\n"


def test_a_job_on_a_node_that_cannot_run_one_is_requeued_and_the_node_drained(slurm: ReleaseSlurm) -> None:
    slurm.start_agent("g1")
    slurm.wait(lambda: slurm.verdict("g1")[:2] == ["1", "fail"] and slurm.verdict("g1")[5] == "cannot-run", 120)
    assert slurm.node("g1").states == {"IDLE"}
    job = slurm.queue("g1", "--requeue")
    slurm.wait(lambda: "DRAIN" in slurm.read().nodes["g1"].states)
    slurm.wait(lambda: slurm.job(job)["JobState"] == "PENDING" and slurm.job(job)["Restarts"] != "0")
    found = slurm.node("g1")
    assert (found.reason, found.owner) == ("Prolog error", OF_SLURM)
    shown = slurm.job(job)
    # Not held, so it starts as soon as the node is back.
    assert int(shown["Priority"]) > 0, shown
    assert not (slurm.folder / f"job.{job}").exists()
    log = (slurm.folder / "g1.log").read_text()
    assert "no job can run on this node: driver-loaded gpu-count-pci " in log, log
    assert slurm.ends(slurm.queue("n1"))["JobState"] == "COMPLETED"


def test_the_limiter_takes_the_node_over_with_the_finding(slurm: ReleaseSlurm) -> None:
    slurm.wait(lambda: slurm.extra("g1").get("bp", {}).get("g") == "cannot-run")
    assert slurm.controller.tick() == []
    found = slurm.node("g1")
    assert found.owner == OURS
    assert found.own
    assert found.own.text.startswith("cannot-run driver-loaded,gpu-count-pci "), found


def test_the_requeued_job_runs_once_a_person_returns_the_node(slurm: ReleaseSlurm) -> None:
    """The gate is open: as in an emergency, nothing but the file changes the prolog's answer."""
    (slurm.at("g1") / "etc/health/gate-off").touch()
    (job,) = slurm.answer("squeue", "--noheader", "--format=%i").split()
    assert slurm.scontrol("update", "nodename=g1", "state=resume") == ""
    # A job that is requeued waits for two minutes.
    assert slurm.scontrol("update", f"jobid={job}", "starttime=now") == ""
    done = slurm.ends(job)
    assert (done["JobState"], int(done["Restarts"]) > 0) == ("COMPLETED", True), done
    assert (slurm.folder / f"job.{job}").read_text() == "started\n"


def test_the_limiter_drains_and_resumes_a_node(slurm: ReleaseSlurm) -> None:
    slurm.wait(lambda: slurm.read().nodes["n4"].states == {"IDLE"})
    finding = report("transient", "ib-link-downed@mlx5_0/1", status="warn", time=int(time.time()))
    assert slurm.scontrol("update", "nodename=n4", f"extra={finding}") == ""
    assert slurm.controller.tick() == []
    drained = slurm.node("n4")
    assert (drained.owner, drained.is_only_drained, "DRAIN" in drained.states) == (OURS, True, True)
    assert slurm.scontrol("update", "nodename=n4", f"extra={report('', status='ok', time=int(time.time()))}") == ""
    assert slurm.controller.tick() == []
    assert slurm.node("n4").owner == OURS
    slurm.later += 200
    assert slurm.controller.tick() == []
    # slurmctld counts a node that is resumed as silent until slurmd answers, at the latest to a ping, each 100 s.
    slurm.wait(lambda: (slurm.node("n4").owner, slurm.node("n4").out_states) == (FREE, frozenset()), 150)
    assert slurm.ends(slurm.queue("n4"))["JobState"] == "COMPLETED"


def test_states_and_reasons_of_others_are_read_whole(slurm: ReleaseSlurm) -> None:
    assert slurm.scontrol("update", "nodename=n2", "state=drain", f"reason={REASON}") == ""
    found = slurm.node("n2")
    assert (found.reason, found.owner, found.is_only_drained) == (REASON, FOREIGN, True)
    flags = ("starttime=now", "duration=60", "users=root", "flags=maint,ignore_jobs", "reservationname=repair")
    assert "created" in slurm.scontrol("create", "reservation", "nodes=n3", *flags)
    slurm.wait(lambda: "MAINTENANCE" in slurm.read().nodes["n3"].states)
    assert slurm.node("n3").out_states in ({"MAINT"}, {"MAINTENANCE"}, {"MAINT", "MAINTENANCE"})
    assert (slurm.node("n3").owner, slurm.node("n3").reason) == (FOREIGN, "")
    assert slurm.scontrol("update", "nodename=n3", "state=drain", f"reason={REASON}") == ""
    assert slurm.node("n3").out_states > {"DRAIN"}
    assert (slurm.node("n3").owner, slurm.node("n3").reason) == (FOREIGN, REASON)
    finding = report("reset", "xid-79@0000:3b:00.0", time=int(time.time()))
    assert slurm.scontrol("update", "nodename=n[2-3]", f"extra={finding}") == ""
    assert slurm.controller.tick() == []
    assert {slurm.node(name).reason for name in ("n2", "n3")} == {REASON}


def test_a_node_that_does_not_answer_and_one_that_boots_are_out(slurm: ReleaseSlurm) -> None:
    slurm.kill("n4")
    job = slurm.queue("n4")
    slurm.wait(lambda: "NOT_RESPONDING" in slurm.read().nodes["n4"].states, 120)
    assert "NOT_RESPONDING" in slurm.node("n4").out_states
    assert slurm.node("n4").owner == FOREIGN
    slurm.answer("scancel", job)
    busy = slurm.queue("n1", "--wrap=sleep 300")
    slurm.wait(lambda: slurm.job(busy)["JobState"] == "RUNNING")
    assert slurm.scontrol("reboot", "asap", "reason=new kernel, by Bob", "n1") == ""
    shown = slurm.node("n1")
    assert shown.owner == FOREIGN
    assert shown.out_states & {"REBOOT", "REBOOT_REQUESTED"}
    slurm.scontrol("cancel_reboot", "n1")
    slurm.answer("scancel", busy)


def test_every_node_is_read(slurm: ReleaseSlurm) -> None:
    text = slurm.answer(*cluster_view.COMMAND)
    found = cluster_view.parse(text)
    assert (sorted(found.nodes), found.malformed) == (sorted(slurm.names), frozenset()), text


def main() -> int:
    DATA.write_text(sys.stdin.read())
    options = ["-q", "-rA", "--noconftest", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestConfigWarning"]
    return int(pytest.main([*options, *sys.argv[1:], __file__]))


if __name__ == "__main__":
    sys.exit(main())
