# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a roll takes the record, reads Slurm, hands each choice of the operator on, and leaves nothing behind where it fails."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.action import roll_plan
from tests.unit.stand_ins import cluster_file

FREE: dict[str, Any] = {"run": "", "holder": "", "held": False, "until": ""}
BUSY = {"run": "0123abcd", "holder": "elsewhere:1:1", "held": True, "until": "2026-11-25T23:00:00Z"}
TAKEN = {**FREE, "run": "r1", "held": True}
IDLE: dict[str, Any] = {"outcome": "resumed", "state": "IDLE", "jobs": [], "free_in": 0, "kind": "", "run": ""}
OWN = {**IDLE, "outcome": "drained", "state": "DRAIN+IDLE", "kind": "roll", "run": "r1"}
SLURM: dict[str, Any] = {"nodes": {f"n{number}": IDLE for number in range(1, 5)}}
NO_WINDOW = {"name": "bedplate_roll_r1", "exists": False, "active": False, "nodes": "", "start": "", "end": ""}
WINDOW = {**NO_WINDOW, "exists": True, "active": True, "nodes": "n[1-4]", "end": "2099-11-27T23:00:00"}
LOST: list[dict[str, Any]] = [{"failed": True, "msg": "no answer"}, {"unreachable": True, "msg": "no answer"}]
IN_WINDOW = {"roll_when": "reservation"}
BOOKED = {**IN_WINDOW, "roll_start": "now+2hours"}
READ, BOOK = "slurm_reservation", "slurm_reservation present"
TAKE, RELEASE = "run_record taken", "run_record released"
UPGRADE = "run_record upgrade"


class Plan(roll_plan.ActionModule):
    """The plan on a fake controller: it keeps the calls, and answers by module and state."""

    def __init__(
        self, cluster: Path, variables: dict[str, Any], answers: dict[str, dict[str, Any]], check: bool = False
    ) -> None:
        manager = SimpleNamespace(extra_vars=variables)
        task = SimpleNamespace(action="x", args={}, check_mode=check, async_val=0, get_variable_manager=lambda: manager)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        templar = SimpleNamespace(template=lambda value: value)
        super().__init__(task, connection, SimpleNamespace(check_mode=check), None, templar, None)
        self._display = SimpleNamespace(display=lambda _text: None)
        self._answers = {
            "run_record": FREE,
            UPGRADE: FREE,
            TAKE: TAKEN,
            "slurm_node": SLURM,
            READ: NO_WINDOW,
            **answers,
        }
        self.calls: list[tuple[str, dict[str, Any]]] = []
        notes = {"__roll_reboot_notes": {"reasons": {"node_tuning": "lacks iommu=pt"}}}
        self.variables = {
            "inventory_hostname": "n1",
            "ansible_delegated_vars": {"ctl1": {}},
            "ansible_play_hosts_all": ["n1", "n2", "n3", "n4"],
            "bedplate_cluster_file": str(cluster),
            "hostvars": SimpleNamespace(raw_get=lambda _host: notes),
            **variables,
        }

    def _module(self, name: str, **arguments: Any) -> dict[str, Any]:
        kind = arguments.get("kind")
        key = " ".join(filter(None, (name, arguments.get("state"), kind if kind != "roll" else "")))
        self.calls.append((key, arguments))
        return self._answers.get(key, {})

    @property
    def names(self) -> list[str]:
        return [name for name, _arguments in self.calls]

    def arguments(self, name: str) -> dict[str, Any]:
        """Return the arguments of the only call of a module with a state."""
        (found,) = (arguments for one, arguments in self.calls if one == name)
        return found

    def plan(self) -> dict[str, Any]:
        return self.run(task_vars=self.variables)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data: dict[str, Any] = yaml.safe_load(cluster_file({"b": {}}, {"b": "n[1-4]"}))
    file: Path = tmp_path_factory.mktemp("roll") / "c.bedplate.yml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


def test_the_time_of_health_is_a_choice(cluster: Path, tmp_path: Path):
    file = tmp_path / "c.bedplate.yml"
    file.write_text(cluster.read_text() + "health: {}\n")
    assert [Plan(file, chosen, {}).plan()["settle"] for chosen in ({}, {"roll_settle": "0"})] == [90, 0]
    assert Plan(cluster, {}, {}).plan()["settle"] == 0


def most(found: dict[str, Any]) -> set[int]:
    """Return how many nodes of a group may be out of service."""
    return {one["most"] for one in found["limits"]}


def test_choices_of_the_operator_are_in_the_plan(cluster: Path):
    chosen = {"roll_failures": 3, "roll_deadline": 1000, "roll_reboot_deadline": 50, "roll_percent": 50}
    began = time.time()
    found = Plan(cluster, chosen, {}).plan()
    assert (found["failures"], most(found)) == (3, {2})
    assert began + 1000 <= found["until"] <= time.time() + 1000
    # The record outlives all that the run may wait for: the deadline, a reboot by Slurm and one by SSH, and two hours.
    assert found["record_seconds"] == 1000 + 2 * 50 + 7200
    assert (found["controller"], found["run"]) == ("ctl1", "r1")


@pytest.mark.parametrize(
    ("chosen", "out"),
    [
        ({}, {1}),
        ({"roll_percent": 50}, {2}),
        (IN_WINDOW, {4}),
        ({**IN_WINDOW, "roll_percent": 50}, {2}),
    ],
)
def test_all_nodes_may_be_out_in_a_maintenance_window_alone_and_unless_the_operator_limits_them(
    cluster: Path, chosen: dict[str, Any], out: set[int]
):
    assert most(Plan(cluster, chosen, {READ: WINDOW}).plan()) == out


@pytest.mark.parametrize(("chosen", "left"), [({}, ["n2"]), ({"roll_reserved": True}, [])])
def test_nodes_in_reservations_of_others_are_left_unless_the_operator_includes_them(
    cluster: Path, chosen: dict[str, Any], left: list[str]
):
    nodes = {**SLURM["nodes"], "n2": {**IDLE, "reservations": ["course"]}}
    assert list(Plan(cluster, chosen, {"slurm_node": {"nodes": nodes}}).plan()["left"]) == left


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize(
    ("call", "made"),
    [("run_record", ["run_record"]), (TAKE, ["run_record", TAKE])],
    ids=["read", "taken"],
)
def test_a_record_without_an_answer_ends_the_plan_before_slurm_is_read(
    cluster: Path, lost: dict[str, Any], call: str, made: list[str]
):
    action = Plan(cluster, {}, {call: lost})
    assert action.plan() == lost
    assert action.names == made


@pytest.mark.parametrize("lost", LOST)
def test_slurm_without_an_answer_ends_the_plan_and_the_run_keeps_its_name(cluster: Path, lost: dict[str, Any]):
    action = Plan(cluster, {}, {"slurm_node": lost})
    assert action.plan() == lost
    assert action.names == ["run_record", TAKE, UPGRADE, "slurm_node", RELEASE]
    assert not action.arguments(RELEASE)["finished"]


@pytest.mark.parametrize("lost", LOST)
def test_a_reservation_that_is_not_read_is_not_made(cluster: Path, lost: dict[str, Any]):
    action = Plan(cluster, BOOKED, {READ: lost})
    assert action.plan() == lost
    assert BOOK not in action.names


@pytest.mark.parametrize(("one", "finished"), [(IDLE, True), (OWN, False)])
def test_a_run_without_its_window_keeps_its_name_while_it_has_nodes_drained(
    cluster: Path, one: dict[str, Any], finished: bool
):
    action = Plan(cluster, IN_WINDOW, {"slurm_node": {"nodes": {**SLURM["nodes"], "n4": one}}})
    assert action.plan()["failed"]
    assert action.arguments(RELEASE)["finished"] is finished


def test_a_preview_that_fails_releases_no_record(cluster: Path):
    action = Plan(cluster, IN_WINDOW, {}, check=True)
    assert action.plan()["failed"]
    assert action.names == ["run_record", UPGRADE, "slurm_node", READ]


@pytest.mark.parametrize(("ended", "is_refused"), [(BUSY["run"], False), ("fedc3210", True), ("", True)])
def test_the_record_of_a_process_elsewhere_is_taken_only_if_the_operator_names_that_run(
    cluster: Path, ended: str, is_refused: bool
):
    action = Plan(cluster, {"roll_ended": ended}, {"run_record": BUSY})
    if is_refused:
        with pytest.raises(AnsibleActionFail, match=r"another roll works on the nodes: run 0123abcd of elsewhere:1:1"):
            action.plan()
        assert action.names == ["run_record"]
    else:
        assert not action.plan().get("failed")
        assert (action.arguments(TAKE)["dead"], action.arguments(TAKE)["run"]) == (BUSY["holder"], BUSY["run"])


def test_a_roll_beside_an_upgrade_of_slurm_is_refused_and_gives_its_record_back(cluster: Path):
    action = Plan(cluster, {}, {UPGRADE: BUSY})
    with pytest.raises(
        AnsibleActionFail, match=r"an upgrade of Slurm works on the nodes: run 0123abcd of elsewhere:1:1"
    ):
        action.plan()
    assert action.names == ["run_record", TAKE, UPGRADE, READ, RELEASE]
    assert action.arguments(RELEASE)["finished"]


@pytest.mark.parametrize("reserved", [False, True])
def test_a_reservation_is_made_over_others_only_if_the_operator_includes_their_nodes(cluster: Path, reserved: bool):
    action = Plan(cluster, {**BOOKED, "roll_reserved": reserved}, {BOOK: WINDOW})
    assert not action.plan().get("failed")
    assert action.arguments(BOOK)["reserved"] is reserved


@pytest.mark.parametrize("reserved", [False, True])
def test_a_reservation_that_overlaps_others_is_refused_unless_the_operator_includes_their_nodes(
    cluster: Path, reserved: bool
):
    overlaps = {READ: {**WINDOW, "overlaps": "course"}}
    found = Plan(cluster, {**IN_WINDOW, "roll_reserved": reserved}, overlaps).plan()
    assert bool(found.get("failed")) is not reserved
    assert ("bedplate_roll_r1 overlaps course: scontrol delete" in found["msg"]) is not reserved


def test_variables_of_the_command_line_are_part_of_an_approved_plan(cluster: Path, tmp_path: Path):
    file = tmp_path / "plan.json"
    saved = Plan(cluster, {"roll_plan_file": str(file)}, {}, check=True).plan()
    digest = saved["msg"].rpartition("digest: ")[2]
    approved = {"roll_plan_file": str(file), "roll_plan_digest": digest}
    assert not Plan(cluster, approved, {}).plan().get("failed")
    other = Plan(cluster, {**approved, "node_tuning_sysctls": {"vm.swappiness": 60}}, {})
    with pytest.raises(AnsibleActionFail, match="variables of the command line: changed since the plan"):
        other.plan()
    assert other.calls == []
