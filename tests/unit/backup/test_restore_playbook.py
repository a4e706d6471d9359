# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/restore.yml on recorded nodes, with a real backup: what it runs on which host, in which order, and when it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit.backups import PASSPHRASE, ROWS, Keys, make_backup
from tests.kit.recorded.scenario import Scenario, judge, play
from tests.kit.recorded.stage import Run, Stage

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.playbooks
KEY = "f" * 64
LOOK = {
    "backup": "",
    "steps": {},
    "controller": {"runs": False, "files": 0},
    "database": {"runs": False, "jobs": 0, "largest": 0, "tables": 0},
}
IN_USE = {
    **{
        "changed": False,
        "configured": True,
        "slurm": [],
        "gres": [],
        "nodes": {},
        "partitions": {},
        "count": "",
        "new": "",
    },
    **{"changing": [], "fence": {"nodes": "", "partitions": []}},
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(ROOT) as found:
        yield found


@dataclass(frozen=True)
class Files:
    backup: Path
    key: Path
    passphrase: Path

    def arguments(self, *more: str) -> list[str]:
        names = {"from": self.backup, "key": self.key, "passphrase_file": self.passphrase}
        given = [f"restore_{name}={path}" for name, path in names.items()]
        return [word for one in (*given, *more) for word in ("-e", one)]


@pytest.fixture(scope="module")
def files(keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("backup")
    with pytest.MonkeyPatch.context() as monkeypatch:
        backup = make_backup(folder, keys, monkeypatch, cluster="slurm")
    passphrase = folder / "passphrase"
    passphrase.write_bytes(PASSPHRASE + b"\n")
    passphrase.chmod(0o600)
    return Files(backup, keys.private, passphrase)


def answers(jobs: dict[str, list[int]] | None = None, munge: str = "", **look: Any) -> list[Any]:
    """Return what the nodes answer: their jobs, the munge key that they have, and what the controller has."""
    jobs = {"gpu1": [41, 42], "gpu2": [42]} if jobs is None else jobs
    nodes = [
        {
            "module": "slurm_restore",
            "host": host,
            "args": {"step": "node"},
            "result": {"changed": False, "jobs": ids, "munge": munge},
        }
        for host, ids in jobs.items()
    ]
    step: dict[str, dict[str, Any]] = {
        "look": {"changed": False, "look": {**LOOK, **look}},
        "database": {"changed": True, "restored": {"rows": 5, "tables": 3}},
        "state": {"changed": True, "restored": {"files": 5, "next_job": 10046}},
        "configuration": {"changed": True, "restored": {"files": []}},
        "finished": {"changed": True, "restored": {}},
        "jobs": {"changed": False, "jobs": [41, 42], "silent": []},
    }
    steps = [{"module": "slurm_restore", "args": {"step": name}, "result": result} for name, result in step.items()]
    others = {
        "slurm_in_use": IN_USE,
        "file": {"changed": True},
        "stat": {"changed": False, "stat": {"exists": False}},
        "copy": {"changed": True},
        "systemd_service": {"changed": True},
        "slurm_accounts": {"changed": False},
        "slurm_config_test": {"changed": False},
        "slurm_fence": {"changed": False},
    }
    upgrade = [
        {"module": "slurm_upgrade", "args": {"step": "stop"}, "result": {"changed": False, "stopped": [], "at": 1.0}},
        {"module": "slurm_upgrade", "args": {"step": "serve"}, "result": {"changed": True, "up": True, "seconds": 2.0}},
    ]
    return [*nodes, *steps, *upgrade, *({"module": name, "result": one} for name, one in others.items()), "converged"]


def run(stage: Stage, files: Files, scenario: dict[str, Any]) -> tuple[Run, list[str]]:
    more = scenario.pop("more", [])
    wanted = Scenario(
        subject="restore", name="x", cluster="slurm", playbook="restore", arguments=files.arguments(*more), **scenario
    )
    found = play(stage, wanted)
    return found, judge(wanted, found)


def steps(found: Run) -> list[str]:
    return [
        f"{call['host']} {call['module']} {call['args'].get('step', call['args'].get('manifest', call['args'].get('name', '')))}".strip()
        for call in found.calls
    ]


def munge() -> str:
    import hashlib

    return hashlib.sha256(b"of the control node").hexdigest()


def test_a_restore_in_order(stage: Stage, files: Files):
    found, _wrong = run(stage, files, {"answers": answers(munge=munge())})
    text = "\n".join(one["msg"] for one in found.results if one["status"] == "failed")
    assert found.rc == 0, f"{text}\n{found.output[-3000:]}\n{steps(found)}"
    done = steps(found)
    wanted = [
        *(
            "ctl1 slurm_restore look",
            "ctl1 slurm_upgrade stop",
            "ctl1 deploy slurm_database",
            "ctl1 deploy slurm_controller",
        ),
        *("ctl1 systemd_service munge.service", "ctl1 systemd_service mariadb.service", "ctl1 slurm_restore database"),
        *("ctl1 slurm_upgrade serve", "ctl1 slurm_restore configuration", "ctl1 slurm_restore state"),
        *("ctl1 slurm_upgrade serve", "ctl1 slurm_restore jobs", "ctl1 slurm_restore finished"),
    ]
    rest = iter(done)
    assert all(one in rest for one in wanted), done
    assert {one for one in done if one.startswith("gpu")} == {"gpu1 slurm_restore node", "gpu2 slurm_restore node"}
    args = {call["args"]["step"]: call["args"] for call in found.calls if call["module"] == "slurm_restore"}
    assert args["state"]["next_job"] == 10046
    assert args["database"]["member"]["rows"] == ROWS
    assert args["database"]["session"] != args["state"]["session"] != ""
    installs = [call["args"] for call in found.calls if call["module"] == "deploy"]
    first = next(one for one in installs if one["manifest"] == "slurm_controller")
    assert first["only"] == ["packages", "files"]
    assert "2 of 2 jobs of the backup run on" in found.output
    assert args["state"]["session"] not in found.output


def refused(stage: Stage, files: Files, scenario: dict[str, Any]) -> str:
    found, _wrong = run(stage, files, scenario)
    assert found.rc != 0
    assert all(one.endswith((" node", " look")) for one in steps(found)), steps(found)
    return "\n".join(one["msg"] for one in found.results if one["status"] == "failed")


def test_jobs_that_the_backup_lacks_refuse_it(stage: Stage, files: Files):
    text = refused(stage, files, {"answers": answers({"gpu1": [41, 77], "gpu2": [44]}, munge())})
    for part in ("2 running jobs would be ended", "job 77: runs on gpu1", "job 44: runs on gpu2", "restore_loses_jobs"):
        assert part in text


@pytest.mark.parametrize(
    ("answer", "why"),
    [({"failed": True, "msg": "no /proc"}, "no /proc"), ({"unreachable": True}, "no answer by SSH")],
)
def test_a_node_whose_jobs_are_unknown_refuses_it(stage: Stage, files: Files, answer: dict[str, Any], why: str):
    silent = {"module": "slurm_restore", "host": "gpu2", "args": {"step": "node"}, "result": answer}
    text = refused(stage, files, {"answers": [silent, *answers(munge=munge())]})
    assert f"nodes that reported no jobs: gpu2 ({why})" in text
    assert "restore_loses_jobs" in text


def test_a_controller_that_was_not_read_refuses_it(stage: Stage, files: Files):
    broken = {"failed": True, "msg": "StateSaveLocation: Input/output error"}
    look = {"module": "slurm_restore", "args": {"step": "look"}, "result": broken}
    text = refused(stage, files, {"answers": [look, *answers(munge=munge())], "more": ["restore_over=true"]})
    assert "ctl1: StateSaveLocation: Input/output error" in text


def test_a_running_controller_refuses_it(stage: Stage, files: Files):
    text = refused(stage, files, {"answers": answers(munge=munge(), controller={"runs": True, "files": 9})})
    assert "ctl1: slurmctld runs" in text


def test_nodes_with_another_munge_key_refuse_it(stage: Stage, files: Files):
    assert "another munge key" in refused(stage, files, {"answers": answers(munge=KEY)})


def test_a_wrong_key_refuses_it(stage: Stage, files: Files, keys: Keys):
    other = Files(files.backup, keys.other, files.passphrase)
    assert "cannot be decrypted" in refused(stage, other, {"answers": answers(munge=munge())})


def test_a_preview_names_everything_and_restores_nothing(stage: Stage, files: Files):
    found, _wrong = run(stage, files, {"answers": answers({"gpu1": [41], "gpu2": []}, munge()), "check": True})
    assert found.rc == 0, found.output[-3000:]
    assert all(one.endswith((" node", " look")) for one in steps(found)), steps(found)
    for part in ("3 tables with 5 rows", "job 42: ran at the backup", "jwt_key, munge_key"):
        assert part in found.output


def test_a_call_after_the_end_changes_nothing(stage: Stage, files: Files):
    import hashlib

    digest = hashlib.sha256(files.backup.read_bytes()).hexdigest()
    finished = {"backup": digest, "steps": {"state": 1, "finished": 2}, "controller": {"runs": True, "files": 9}}
    found, _wrong = run(stage, files, {"answers": answers({"gpu1": [41, 99], "gpu2": []}, munge(), **finished)})
    assert found.rc == 0, found.output[-3000:]
    assert all(one.endswith((" node", " look")) for one in steps(found)), steps(found)
    assert "Nothing is left to do" in found.output


DONE = {"database_begun": 1, "database": 1, "configuration": 2, "state": 3}


# Two whole runs, half a minute; `make full-roles` plays it.
@pytest.mark.full_roles
def test_a_restore_over_another_one_stops_the_daemons_first(stage: Stage, files: Files):
    look = {"backup": KEY, "steps": {**DONE, "finished": 4}, "controller": {"runs": True, "files": 9}}
    found, _wrong = run(stage, files, {"answers": answers(munge=munge(), **look), "more": ["restore_over=true"]})
    assert found.rc == 0, found.output[-3000:]
    done = steps(found)
    assert done.index("ctl1 slurm_upgrade stop") < done.index("ctl1 slurm_restore database"), done


# Two whole runs, half a minute; `make full-roles` plays it.
@pytest.mark.full_roles
def test_a_call_that_continues_does_not_replace_files_in_force(stage: Stage, files: Files):
    import hashlib

    digest = hashlib.sha256(files.backup.read_bytes()).hexdigest()
    look = {"backup": digest, "steps": DONE, "controller": {"runs": True, "files": 9}}
    found, _wrong = run(stage, files, {"answers": answers(munge=munge(), **look)})
    assert found.rc == 0, found.output[-3000:]
    done = steps(found)
    before = done[: done.index("ctl1 slurm_restore state")]
    assert not any(one.startswith(("ctl1 slurm_upgrade stop", "ctl1 deploy slurm_")) for one in before), done


def test_mistakes_are_named_before_any_node_is_touched(stage: Stage, files: Files, keys: Keys):
    wrong = Files(files.backup.with_name("none"), keys.public, files.passphrase)
    found, _wrong = run(stage, wrong, {"answers": answers(), "more": ["restore_ovr=true", "restore_job_gap=-1"]})
    assert found.rc != 0
    assert steps(found) == []
    text = "\n".join(one["msg"] for one in found.results if one["status"] == "failed")
    for part in ("file not found", "OpenPGP public key", "restore_ovr is not a variable", "restore_job_gap"):
        assert part in text
