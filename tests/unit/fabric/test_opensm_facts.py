"""The module that asks a host for its subnet managers: whom it asks, how long it waits, and what it says of silence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.modules import opensm_facts
from tests.unit.fabric.messages import check_messages

Run = Callable[..., dict[str, Any]]
ONE, TWO = "021d6a2cd3704201", "02d6019952577601"
RUN = Path(__file__).parents[3] / "roles/opensm/tasks/run.yml"
UNIT = "opensm-plane@fabric.service"
SHOW = f"systemctl show --property=LoadState,ActiveState,SubState {UNIT}"
SMINFO = "sminfo: sm lid 1 sm guid 0x21d6a2cd3704201, activity count 4 priority 15 state 3 SMINFO_MASTER\n"
ANSWERS = {
    SHOW: "LoadState=loaded\nActiveState=active\nSubState=running\n",
    "ibstat": f"CA 'mlx5_4'\n\tPort 1:\n\t\tPort GUID: 0x{ONE}\n",
    "sminfo -C mlx5_4 -P 1": SMINFO,
    f"smpquery -C mlx5_4 -P 1 -G pkeys 0x{TWO} 1": "   0: 0x7fff 0x8005 0x0000\n",
}


def log(state: str) -> str:
    """Return a log of now: the module counts errors of the last hour."""
    now = datetime.now().strftime("%b %d %H:%M:%S")
    lines = [
        "-> OpenSM 3.3.23",
        f"-> Entering {state} state",
        "-> osm_ucast_mgr_process: ftree tables configured on all switches",
    ]
    return "".join(f"{now} 1 [1] 0x01 {line}\n" for line in [*lines, "-> x: ERR 7505: no", "-> SUBNET UP"])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs the module with prepared answers (command -> what it prints; none: it fails) and a log."""

    def call(
        answers: dict[str, str], text: str = "", *, check: bool = False, tools: bool = True, **params: Any
    ) -> dict[str, Any]:
        path = tmp_path / "opensm.log"
        path.write_text(text)
        plane = {"plane": "", "guid": ONE, "unit": UNIT, "log": str(path), "expected": "master", "ports": [TWO]}

        class Fake:
            def __init__(self, **_arguments: Any) -> None:
                self.params = {"planes": [plane], "wait": 0, "settled": False, "errors_minutes": 60, **params}
                self.check_mode = check

            def get_bin_path(self, name: str) -> str | None:
                return name if tools else None

            def exit_json(self, **result: Any) -> None:
                found.update(result)
                raise SystemExit

            def fail_json(self, **result: Any) -> None:
                self.exit_json(failed=True, **result)

        def outcome(argv: Sequence[str], _seconds: float) -> Outcome:
            answer = answers.get(" ".join(argv))
            failed = Outcome(1, "LoadState=loaded\nActiveState=active\n", "no")
            return failed if answer is None else Outcome(0, answer, "")

        found: dict[str, Any] = {}
        monkeypatch.setattr(opensm_facts.command, "run", outcome)
        monkeypatch.setattr(opensm_facts, "AnsibleModule", Fake)
        with pytest.raises(SystemExit):
            opensm_facts.main()
        return found

    return call


def test_all_that_is_known_of_a_plane(run: Run):
    found = run(ANSWERS, log("MASTER"))
    (plane,) = found["planes"]
    assert (found["changed"], found["settled"]) == (False, True)
    assert (plane["unit"], plane["port"], plane["ports"]) == ("active", ["mlx5_4", "1"], [ONE])
    assert plane["managers"] == [{"guid": ONE, "lid": 1, "priority": 15, "state": "master"}]
    assert plane["pkeys"] == {TWO: [0x7FFF, 0x8005]}
    assert (plane["log"]["state"], plane["log"]["engine"], plane["log"]["errors"]) == (
        "MASTER",
        "ftree",
        {"ERR 7505": 1},
    )


def test_the_log_before_is_read_where_this_one_was_just_begun(run: Run, tmp_path: Path):
    (tmp_path / "opensm.log.1").write_text(log("MASTER"))
    (plane,) = run(ANSWERS, "Nov 21 15:48:45 319595 [672076C0] 0x02 -> SUBNET UP\n")["planes"]
    assert (plane["log"]["state"], plane["log"]["engine"]) == ("MASTER", "ftree")


def test_the_log_of_a_large_fabric_is_read_to_its_begin(run: Run):
    noise = "Nov 21 15:48:45 319595 [672076C0] 0x02 -> osm_report_notice: of no interest\n"
    (plane,) = run(ANSWERS, log("MASTER") + noise * (9 * 1024 * 1024 // len(noise)))["planes"]
    assert (plane["log"]["state"], plane["log"]["engine"], plane["log"]["up"]) == ("MASTER", "ftree", True)


def test_the_subnet_manager_itself_knows_its_state_where_the_log_has_lost_it(run: Run):
    lid = {"ibstat": f"CA 'mlx5_4'\n\tPort 1:\n\t\tBase lid: 1\n\t\tPort GUID: 0x{ONE}\n"}
    (plane,) = run({**ANSWERS, **lid, "sminfo -C mlx5_4 -P 1 1": SMINFO}, "")["planes"]
    assert plane["log"]["state"] == "MASTER"


def test_one_that_does_not_settle_is_named_with_its_state_its_log_and_what_to_do(run: Run, tmp_path: Path):
    found = run(ANSWERS, log("DISCOVERING"), settled=True)
    assert found["failed"]
    assert all(part in found["msg"] for part in (UNIT, f"0x{ONE}", "discovering", "opensm.log", "ERR 7505"))
    check_messages("opensm_facts: a subnet manager that does not settle", [found["msg"]], tmp_path)
    (task,) = [one for one in yaml.safe_load(RUN.read_text()) if "bedplate.cluster.opensm_facts" in one]
    assert "failed_when" not in task


def test_silence_is_no_error_of_the_module(run: Run):
    (plane,) = run({})["planes"]
    assert (plane["unit"], plane["port"], plane["managers"], plane["pkeys"]) == ("", [], [], {})
    (plane,) = run({**ANSWERS, SHOW: "LoadState=loaded\nActiveState=activating\nSubState=auto-restart\n"})["planes"]
    assert plane["unit"] == "activating (auto-restart)"


def test_it_waits_for_the_expected_state_or_for_any(run: Run, monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr(opensm_facts.time, "sleep", slept.append)
    clock = iter(range(100))
    monkeypatch.setattr(opensm_facts.time, "monotonic", lambda: next(clock))
    assert run(ANSWERS, log("STANDBY"), wait=5)["settled"]
    assert len(slept) == 4
    slept.clear()
    assert run(ANSWERS, log("STANDBY"), wait=5, settled=True) == {"changed": False, "settled": True, "planes": []}
    assert run(ANSWERS, log("MASTER"), wait=5)["settled"]
    assert slept == []
    assert not run({**ANSWERS, SHOW: "LoadState=loaded\nActiveState=failed\n"}, log("MASTER"), wait=5, settled=True)[
        "settled"
    ]
    assert slept
    slept.clear()
    assert not run(ANSWERS, log("DISCOVERING"), wait=5, check=True)["settled"]
    assert slept == []


def test_it_waits_until_the_port_sees_the_new_master(run: Run, monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr(opensm_facts.time, "sleep", slept.append)
    clock = iter(range(100))
    monkeypatch.setattr(opensm_facts.time, "monotonic", lambda: next(clock))
    handing_over = SMINFO.replace("state 3 SMINFO_MASTER", "state 2 SMINFO_STANDBY")
    run({**ANSWERS, "sminfo -C mlx5_4 -P 1": handing_over}, log("MASTER"), wait=3)
    assert slept


def test_tools_that_are_missing_are_named_but_not_in_check_mode(run: Run):
    found = run({}, tools=False)
    assert found["failed"]
    check_messages("opensm_facts: no tools", [found["msg"]])
    assert run({}, tools=False, check=True)["planes"] == []
