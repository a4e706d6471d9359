"""The module that brings accounts, users and QOS to the wanted state: what it asks, makes, predicts and says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.modules import slurm_accounts

QOS = "Name|Priority\nnormal|10\n"
ASSOCIATIONS = "Account|User|ParentName|QOS|Def QOS\nroot|||normal|\n"
REFUSED = (1, "", "sacctmgr: error: _open_persist_conn: failed to open persistent connection to db1:6819\n")
ACCOUNTS = {"Research": {"users": ["alice"]}}
WANTED_CALLS = [
    "add account Research cluster=lab parent=root description=Research organization=Research",
    "add user alice cluster=lab account=Research",
]


class Fake:
    """An AnsibleModule whose sacctmgr gives prepared answers."""

    answers: Mapping[str, tuple[int, str, str]] = {}
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

    def run_command(self, line: list[str], environ_update: dict[str, str]) -> tuple[int, str, str]:
        assert line[:3] == ["timeout", "60", "sacctmgr"]
        command = " ".join(line[4:])
        self.ran.append(command)
        return next((answer for start, answer in self.answers.items() if command.startswith(start)), (0, "", ""))

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def exit_json(self, **result: Any) -> None:
        self.result = result
        raise SystemExit

    def fail_json(self, **result: Any) -> None:
        self.exit_json(failed=True, **result)


def run(
    monkeypatch: pytest.MonkeyPatch,
    answers: Mapping[str, tuple[int, str, str]],
    *,
    check: bool = False,
    installed: bool = True,
    accounts: Mapping[str, Any] = ACCOUNTS,
) -> Fake:
    monkeypatch.setattr(slurm_accounts, "AnsibleModule", Fake)
    monkeypatch.setattr(Fake, "check", check)
    monkeypatch.setattr(Fake, "installed", installed)
    monkeypatch.setattr(Fake, "answers", {"list qos": (0, QOS, ""), "list assoc": (0, ASSOCIATIONS, ""), **answers})
    params = {"cluster": "lab", "qos": {"Normal": {"Priority": 10}}, "accounts": accounts}
    monkeypatch.setattr(Fake, "params", params)
    with pytest.raises(SystemExit):
        slurm_accounts.main()
    return Fake.last


@pytest.mark.parametrize("check", [False, True])
def test_the_calls_are_made_or_in_check_mode_only_told(monkeypatch: pytest.MonkeyPatch, check: bool):
    module = run(monkeypatch, {}, check=check)
    assert module.result == {"changed": True, "asked": True, "calls": WANTED_CALLS}
    assert module.ran[2:] == ([] if check else WANTED_CALLS)


def test_a_second_run_changes_nothing_although_slurm_has_small_letters(monkeypatch: pytest.MonkeyPatch):
    stored = ASSOCIATIONS + "research||root|normal|\nresearch|alice||normal|\n"
    module = run(monkeypatch, {"list assoc": (0, stored, "")})
    assert module.result == {"changed": False, "asked": True, "calls": []}


def test_a_forecast_without_sacctmgr(monkeypatch: pytest.MonkeyPatch):
    module = run(monkeypatch, {}, check=True, installed=False)
    assert (module.result["changed"], module.result["asked"], module.warnings, module.ran) == (True, False, [], [])
    assert module.result["calls"] == ["add qos Normal", "modify qos Normal set Priority=10", *WANTED_CALLS]


@pytest.mark.parametrize("command", ["list qos", "list assoc"])
def test_a_forecast_without_slurmdbd_is_a_warning(monkeypatch: pytest.MonkeyPatch, command: str):
    module = run(monkeypatch, {command: REFUSED}, check=True)
    assert "failed" not in module.result
    assert (module.result["changed"], module.result["asked"]) == (True, False)
    assert module.result["calls"] == ["add qos Normal", "modify qos Normal set Priority=10", *WANTED_CALLS]
    (warning,) = module.warnings
    assert "was not asked" in warning
    assert "failed to open persistent connection to db1:6819" in warning
    assert "failed to open persistent connection to db1:6819" in module.result["msg"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [(REFUSED, "failed to open persistent connection to db1:6819"), ((124, "", ""), "no answer in 60 s")],
)
def test_without_slurmdbd_a_run_fails_and_says_where_to_look(
    monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str, str], text: str
):
    result = run(monkeypatch, {"list qos": answer}).result
    assert (result["failed"], result["asked"], result["calls"]) == (True, False, [])
    assert text in result["msg"]
    assert "`journalctl -u slurmdbd`" in result["msg"]


def test_a_call_that_fails_tells_which_were_made(monkeypatch: pytest.MonkeyPatch):
    result = run(monkeypatch, {"add user": (1, " error: no such user\n", "")}).result
    assert (result["failed"], result["changed"], result["calls"]) == (True, True, WANTED_CALLS[:1])
    assert result["msg"].startswith(f"sacctmgr --immediate {WANTED_CALLS[1]}: error: no such user. Look at")


def test_nothing_modified_is_no_failure(monkeypatch: pytest.MonkeyPatch):
    assert "failed" not in run(monkeypatch, {"add user": (1, " Nothing modified\n", "")}).result


def test_a_run_without_sacctmgr_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    result = run(monkeypatch, {}, installed=False).result
    assert (result["failed"], result["msg"].split(":")[0]) == (True, "sacctmgr is not installed on this host")


def test_accounts_that_are_one_for_slurm_are_refused_before_anything(monkeypatch: pytest.MonkeyPatch):
    module = run(monkeypatch, {}, accounts={"ML": {}, "ml": {}})
    assert (module.result["failed"], module.ran) == (True, [])
    assert "accounts ML and ml are one for Slurm" in module.result["msg"]
