"""The release of the machines in verify: when it is recorded, when another one is a finding, and what a run says of an update."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.action import node_state, verify_report
from ansible_collections.bedplate.cluster.plugins.action.node_state import RECORDS_RELEASE
from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE, UNRECORDED
from ansible_collections.bedplate.cluster.plugins.plugin_utils.update import update_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.update.changed_defaults import ChangedDefault

CLUSTER = str(Path(__file__).parents[1] / "cluster/base.yml")


def stand_ins(arguments: dict[str, Any], check: bool = False) -> list[Any]:
    """Return what an action is made of: a task, and a connection to nobody."""
    task = SimpleNamespace(action="x", args=arguments, check_mode=check, async_val=0)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    return [task, connection, SimpleNamespace(check_mode=check, remote_user=None), None, None, None]


class NodeState(node_state.ActionModule):
    """The action node_state, with a machine that has `recorded` on record, and a part to compare if a role is named."""

    recorded = UNRECORDED
    asked: dict[str, Any] | None = None

    def _expected(self, roles: Any) -> tuple[dict[str, Any], list[Any]]:
        return {"gpu_driver": {}} if "roles" in self._task.args and list(roles) == ["gpu_driver"] else {}, []

    def _execute_module(
        self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        self.asked = module_args
        return {"findings": [], "compared": [], "release": self.recorded}


@pytest.mark.parametrize(
    ("arguments", "recorded", "records", "is_asked", "kinds"),
    [
        ({}, UNRECORDED, True, True, []),
        ({}, UNRECORDED, False, False, ["release"]),
        ({}, RELEASE, False, False, []),
        ({}, "", False, False, []),
        ({"roles": ["gpu_driver"]}, UNRECORDED, True, False, []),
        ({"parts": {"gpu_driver": {}}}, UNRECORDED, True, False, []),
    ],
)
def test_a_whole_comparison_records_the_release_or_names_another_one(
    arguments: dict[str, Any], recorded: str, records: bool, is_asked: bool, kinds: list[str]
):
    action = NodeState(*stand_ins(arguments))
    action.recorded = recorded
    found = action.run(task_vars={RECORDS_RELEASE: records})
    assert action.asked
    assert action.asked["record_release"] is is_asked
    assert [one["kind"] for one in found["findings"]] == kinds


@pytest.mark.parametrize("arguments", [{"roles": ["cuda"]}, {"parts": {}}])
def test_a_machine_of_which_nothing_is_compared_is_not_asked(arguments: dict[str, Any]):
    action = NodeState(*stand_ins(arguments))
    found = action.run(task_vars={RECORDS_RELEASE: True})
    assert (action.asked, found["findings"], found["changed"]) == (None, [], False)


def report(
    results: dict[str, dict[str, Any] | None], records: bool = True, check: bool = False, **variables: Any
) -> list[str]:
    """Return the warnings of the last task of a run in which one default changed."""
    given = {
        "ansible_play_hosts_all": list(results),
        "hostvars": SimpleNamespace(raw_get=lambda host: {"machine": results[host]}),
        "bedplate_cluster_file": CLUSTER,
        RECORDS_RELEASE: records,
        **variables,
    }
    action = verify_report.ActionModule(*stand_ins({"registered": "machine"}, check))
    warnings: list[str] = action.run(task_vars=given).get("warnings", [])
    return warnings


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = ChangedDefault("demo_a", "1", "2", "demo_a: 1 in group_vars", ("gpu01",))
    monkeypatch.setattr(update_report, "changed_defaults", lambda *_arguments: [one])


OLD = {"findings": [], "release": UNRECORDED}


@pytest.mark.parametrize(
    ("check", "parts", "others"),
    [
        (True, ["will change", "demo_a: 1 becomes 2", "to keep it"], ["CHANGELOG.md"]),
        (False, ["changed: demo_a", "CHANGELOG.md says why"], ["will change", "to keep it"]),
    ],
)
def test_a_run_of_the_site_says_which_defaults_change(changed: None, check: bool, parts: list[str], others: list[str]):
    (text,) = report({"ctl1": OLD, "gpu01": OLD}, check=check)
    assert [part for part in parts if part not in text] == []
    assert [part for part in others if part in text] == []


def test_a_run_of_some_tags_says_nothing_of_an_update(changed: None):
    assert report({"ctl1": OLD}, ansible_run_tags=["scheduler"]) == []
    assert report({"ctl1": OLD}, ansible_skip_tags=["gpu"]) == []


@pytest.mark.parametrize(("recorded", "remedy"), [(UNRECORDED, "playbooks/site.yml"), ("99.0.0", "bedplate 99.0.0")])
def test_the_remedy_for_another_release_is_the_newer_of_the_two(recorded: str, remedy: str):
    action = NodeState(*stand_ins({}))
    action.recorded = recorded
    (found,) = action.run(task_vars={})["findings"]
    assert (found["kind"], found["found"], remedy in found["remedy"]) == ("release", recorded, True)


def test_verify_alone_says_nothing_of_an_update(changed: None):
    assert report({"ctl1": OLD, "gpu01": OLD}, records=False) == []


def test_a_host_without_a_result_is_left_out_of_the_oldest_release(changed: None):
    assert f"from {UNRECORDED} " in report({"ctl1": None, "gpu01": OLD})[0]
