"""The module that brings accounts, users and QOS to the wanted state: what it asks, makes, predicts and says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.modules import slurm_accounts
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
QOS = "Name|Priority\nnormal|10\n"
ASSOCIATIONS = "Account|User|ParentName|QOS|Def QOS\nroot|||normal|\n"
# As sacctmgr says it.
SILENT = "failed to open persistent connection to db1:6819"
REFUSED = (1, "", f"sacctmgr: error: _open_persist_conn: {SILENT}\n")
ACCOUNTS = {"Research": {"users": ["alice"]}}
QOS_CALLS = ["add qos Normal", "modify qos Normal set Priority=10"]
WANTED_CALLS = [
    "add account Research cluster=lab parent=root description=Research organization=Research",
    "add user alice cluster=lab account=Research",
]


class Fake:
    """An AnsibleModule whose sacctmgr gives prepared answers."""

    answers: Mapping[str, tuple[int | None, str, str]] = {}
    check = False
    installed = True
    params: Mapping[str, Any] = {}

    def __init__(self, **_arguments: Any) -> None:
        self.check_mode = self.check
        self.ran: list[str] = []
        self.warnings: list[str] = []
        self.result: dict[str, Any] = {}
        Fake.last = self

    last: Fake

    def get_bin_path(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if self.installed else None

    def run(self, argv: Sequence[str], _environment: Mapping[str, str]) -> Outcome:
        """Answer a command of Slurm."""
        assert argv[0] in ("sacctmgr", "squeue")
        line = " ".join(argv[2:]) if argv[0] == "sacctmgr" else "squeue"
        self.ran.append(line)
        answers = (answer for start, answer in self.answers.items() if line.startswith(start))
        return Outcome(*next(answers, (0, "", "")))

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def exit_json(self, **result: Any) -> None:
        self.result = result
        raise SystemExit

    def fail_json(self, **result: Any) -> None:
        self.exit_json(failed=True, **result)


def run(
    monkeypatch: pytest.MonkeyPatch,
    answers: Mapping[str, tuple[int | None, str, str]],
    *,
    check: bool = False,
    installed: bool = True,
    accounts: Mapping[str, Any] = ACCOUNTS,
    remove: bool = False,
) -> Fake:
    def outcome(argv: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> Outcome:
        assert seconds == 60
        return Fake.last.run(argv, environment or {})

    monkeypatch.setattr(slurm_accounts.command, "run", outcome)
    monkeypatch.setattr(slurm_accounts, "AnsibleModule", Fake)
    monkeypatch.setattr(Fake, "check", check)
    monkeypatch.setattr(Fake, "installed", installed)
    monkeypatch.setattr(Fake, "answers", {"list qos": (0, QOS, ""), "list assoc": (0, ASSOCIATIONS, ""), **answers})
    params = {
        "cluster": "lab",
        "qos": {"Normal": {"Priority": 10}},
        "accounts": accounts,
        "remove": remove,
        "slurm_conf": None,
    }
    monkeypatch.setattr(Fake, "params", params)
    with pytest.raises(SystemExit):
        slurm_accounts.main()
    return Fake.last


@pytest.mark.parametrize("check", [False, True])
def test_the_calls_are_made_or_in_check_mode_only_told(monkeypatch: pytest.MonkeyPatch, check: bool):
    module = run(monkeypatch, {}, check=check)
    assert module.result == {"changed": True, "read": True, "calls": WANTED_CALLS, "unlisted": []}
    assert module.ran[2:] == ([] if check else WANTED_CALLS)


def test_a_second_run_changes_nothing_although_slurm_has_small_letters(monkeypatch: pytest.MonkeyPatch):
    stored = ASSOCIATIONS + "research||root|normal|\nresearch|alice||normal|\n"
    module = run(monkeypatch, {"list assoc": (0, stored, "")})
    assert module.result == {"changed": False, "read": True, "calls": [], "unlisted": []}


def test_a_forecast_without_sacctmgr(monkeypatch: pytest.MonkeyPatch):
    module = run(monkeypatch, {}, check=True, installed=False)
    assert (module.result["changed"], module.result["read"], module.warnings, module.ran) == (True, False, [], [])
    assert module.result["calls"] == [*QOS_CALLS, *WANTED_CALLS]


@pytest.mark.parametrize("command", ["list qos", "list assoc"])
def test_a_forecast_without_slurmdbd_is_a_warning(monkeypatch: pytest.MonkeyPatch, command: str):
    module = run(monkeypatch, {command: REFUSED}, check=True)
    assert "failed" not in module.result
    assert (module.result["changed"], module.result["read"]) == (True, False)
    assert module.result["calls"] == [*QOS_CALLS, *WANTED_CALLS]
    (warning,) = module.warnings
    assert SILENT in warning
    assert SILENT in module.result["msg"]
    why = module.result["msg"].partition(": ")[2]
    sentences.check(SENTENCES, "no answer to sacctmgr in check mode", [warning.replace(why, "...")])


@pytest.mark.parametrize(("answer", "text"), [(REFUSED, SILENT), ((None, "", "stopped after 60 s"), "60 s")])
def test_without_slurmdbd_a_run_fails_and_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch, answer: tuple[int | None, str, str], text: str
):
    result = run(monkeypatch, {"list qos": answer}).result
    assert (result["failed"], result["read"], result["calls"]) == (True, False, [])
    assert text in result["msg"]
    assert "`journalctl -u slurmdbd`" in result["msg"]
    sentences.check(SENTENCES, f"sacctmgr list qos ends with {answer[0]}", [result["msg"]])


def test_a_call_that_fails_tells_which_were_made(monkeypatch: pytest.MonkeyPatch):
    error = "error: no such user"
    result = run(monkeypatch, {"add user": (1, f" {error}\n", "")}).result
    assert (result["failed"], result["changed"], result["calls"]) == (True, True, WANTED_CALLS[:1])
    assert result["msg"].startswith(f"sacctmgr --immediate {WANTED_CALLS[1]}: {error}")
    assert "`journalctl -u slurmdbd`" in result["msg"]


def test_nothing_modified_is_no_failure(monkeypatch: pytest.MonkeyPatch):
    assert "failed" not in run(monkeypatch, {"add user": (1, " Nothing modified\n", "")}).result


def test_a_run_without_sacctmgr_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    result = run(monkeypatch, {}, installed=False).result
    assert result["failed"]
    assert {"sacctmgr", "playbooks/scheduler.yml"} <= set(result["msg"].split())
    sentences.check(SENTENCES, "sacctmgr is not installed", [result["msg"]])


def test_accounts_that_are_one_for_slurm_are_refused_before_anything(monkeypatch: pytest.MonkeyPatch):
    module = run(monkeypatch, {}, accounts={"ML": {}, "ml": {}})
    assert (module.result["failed"], module.ran) == (True, [])
    assert {"accounts", "ML", "ml"} <= set(module.result["msg"].split())


STORED = (
    ASSOCIATIONS
    + "research||root|normal|\nresearch|alice||normal|\nresearch|bob||normal|\nold||root|normal|\nold|carol||normal|\n"
)
REMOVED = ["delete user bob where cluster=lab account=research", "delete user carol where cluster=lab account=old",
           "delete account old where cluster=lab"]  # fmt: skip


def test_who_left_the_cluster_file_is_named_in_each_run_and_stays(monkeypatch: pytest.MonkeyPatch):
    module = run(monkeypatch, {"list assoc": (0, STORED, "")})
    assert (module.result["changed"], module.result["calls"]) == (False, [])
    assert [(one["account"], one["user"]) for one in module.result["unlisted"]] == [
        ("old", "carol"), ("research", "bob"), ("old", "")
    ]  # fmt: skip
    (warning,) = module.warnings
    assert {"bob", "research", "carol", "old", "slurm_accounts_remove"} <= set(re.findall(r"\w+", warning))
    sentences.check(SENTENCES, "accounts that left the cluster file and stay", [warning])


@pytest.mark.parametrize("check", [False, True])
def test_who_left_the_cluster_file_is_removed_when_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, check: bool):
    module = run(monkeypatch, {"list assoc": (0, STORED, "")}, remove=True, check=check)
    assert sorted(module.result["calls"]) == sorted(REMOVED)
    assert module.result["calls"][-1] == REMOVED[-1]
    assert module.warnings == []
    assert [one for one in module.ran if one.startswith("delete")] == ([] if check else module.result["calls"])


def test_an_account_with_jobs_is_not_removed(monkeypatch: pytest.MonkeyPatch):
    module = run(monkeypatch, {"list assoc": (0, STORED, ""), "squeue": (0, "old|carol\n", "")}, remove=True)
    assert module.result["calls"] == REMOVED[:1]
    (warning,) = module.warnings
    named = set(re.findall(r"\w+", warning))
    assert {"carol", "old"} <= named
    assert not {"bob", "research"} & named
    sentences.check(SENTENCES, "accounts that left the cluster file and have jobs", [warning])


def test_nothing_is_removed_where_nobody_knows_of_jobs(monkeypatch: pytest.MonkeyPatch):
    silent = {"list assoc": (0, STORED, ""), "squeue": (1, "", "slurm_load_jobs error: Unable to contact controller")}
    module = run(monkeypatch, silent, remove=True)
    assert module.result["failed"]
    assert "Unable to contact" in module.result["msg"]
    sentences.check(SENTENCES, "no answer to squeue before accounts are removed", [module.result["msg"]])
    assert not [one for one in module.ran if one.startswith("delete")]


def test_no_variable_of_a_login_hides_the_jobs_of_an_account(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    seen: list[dict[str, str]] = []
    answer = Fake.run

    def look(module: Fake, argv: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        seen.append({**os.environ, **environment})
        return answer(module, argv, environment)

    monkeypatch.setattr(Fake, "run", look)
    run(monkeypatch, {"list assoc": (0, STORED, "")}, remove=True)
    assert len(seen) == 3 + len(REMOVED)
    assert not any({"SQUEUE_STATES", "SLURM_CLUSTERS"} & set(environment) for environment in seen)


def test_jobs_in_hidden_partitions_keep_their_account(monkeypatch: pytest.MonkeyPatch):
    """As squeue has it for who is not root: without --all it prints no job of a hidden partition."""
    answer = Fake.run

    def squeue(module: Fake, argv: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        if "squeue" in argv:
            return Outcome(0, "old|carol\n" if "--all" in argv else "", "")
        return answer(module, argv, environment)

    monkeypatch.setattr(Fake, "run", squeue)
    assert run(monkeypatch, {"list assoc": (0, STORED, "")}, remove=True).result["calls"] == REMOVED[:1]
