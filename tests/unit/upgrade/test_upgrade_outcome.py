# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts each play has after failures, when the old release returns, and what the report says."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_outcome import Run, plan_of

PLAN: dict[str, Any] = {
    "is_preview": False,
    "old": "24.11",
    "new": "26.05",
    "resume": False,
    "served": False,
    "core": ["db1", "ctl1", "ctl2"],
    "database": ["db1"],
    "controllers": ["ctl1", "ctl2"],
    "nodes": ["n1", "n2", "n3"],
    "others": ["login1"],
    "pending": ["db1", "ctl1", "ctl2", "n1", "n2", "n3", "login1"],
    "failures": 0,
    "left": {},
}
STOPPED = {"__upgrade_stopped_dbd": {"changed": True}, "__upgrade_dumped": {"saved": {"at": 1764187200}}}
UP = {"__upgrade_primary": {"up": True}}
BACK_DBD, BACK_CTLD = {"__upgrade_back_dbd": {"up": True}}, {"__upgrade_back_primary": {"up": True}}


def run(plan: dict[str, Any] | None = None, **variables: dict[str, Any]) -> Run:
    return Run({**PLAN, **(plan or {})}, lambda host: variables.get(host, {}))


def failed(text: str = "Start: no", **more: Any) -> dict[str, Any]:
    return {"__upgrade_failure": text, **more}


def test_the_hosts_of_each_play():
    found = run()
    assert found.hosts("fetch") == PLAN["pending"]
    assert found.hosts("database_before") == ["db1"]
    assert found.hosts("controllers_before") == ["ctl1", "ctl2"]
    assert (found.hosts("primary"), found.hosts("standbys")) == (["ctl1"], ["ctl2"])
    assert (found.hosts("nodes"), found.hosts("others")) == (["n1", "n2", "n3"], ["login1"])
    assert found.hosts("back") == []


@pytest.mark.parametrize("key", ["fetch", "core", "nodes", "back", "close"])
def test_a_preview_and_a_run_without_a_plan_have_no_hosts(key: str):
    assert run({"is_preview": True}).hosts(key) == []
    assert Run({}, lambda _host: {}).hosts(key) == []


def test_a_failed_download_stops_everything_before_a_daemon_stops():
    found = run(ctl1=failed("Download: apt"))
    assert found.hosts("database_before") == found.hosts("nodes") == found.hosts("back") == []
    verdict = found.verdict()
    assert verdict["failed"]
    assert "Nothing was stopped" in verdict["msg"]
    assert "ctl1: Download: apt" in verdict["msg"]


@pytest.mark.parametrize(
    "variables",
    [
        {"db1": {**STOPPED, **failed("Dump: cut short")}},
        {"db1": STOPPED, "ctl1": {"__upgrade_installed": {}, **failed()}},
        {"db1": STOPPED, "ctl1": {"__upgrade_primary": {"failed": True, "up": False}, **failed()}},
        {"db1": STOPPED, "ctl1": {"__upgrade_marked": {"unreachable": True}}},
        # The role did not reach it.
        {"db1": STOPPED, "ctl1": {"__upgrade_marked": {"changed": True}}},
    ],
)
def test_a_failure_before_slurmctld_has_served_goes_back(variables: dict[str, dict[str, Any]]):
    variables = {"ctl1": {}, **variables}
    found = run(**{**variables, "db1": {**variables["db1"], **BACK_DBD}, "ctl1": {**variables["ctl1"], **BACK_CTLD}})
    assert found.hosts("back") == PLAN["core"]
    assert (found.hosts("back_database"), found.hosts("back_primary")) == (["db1"], ["ctl1"])
    assert found.hosts("nodes") == found.hosts("others") == []
    verdict = found.verdict()
    assert verdict["failed"]
    assert "Slurm 24.11 is back" in verdict["msg"]
    assert "between 2025-11-26 20:00:00 and " in verdict["msg"]


def test_a_step_that_was_skipped_has_stopped_no_daemon():
    skipped = {"__upgrade_stopped_dbd": {"skipped": True}, "__upgrade_stopped_ctld": {"skipped": True}}
    assert run(ctl1=failed(), db1=skipped).hosts("back") == []
    assert run(ctl1=failed(), db1={**skipped, "__upgrade_stopped_ctld": {}}).hosts("back") == PLAN["core"]


def test_a_plan_that_failed_is_no_plan():
    found = {"n1": {"__upgrade": {**PLAN, "failed": True}}, "ctl1": {"__upgrade": PLAN}}
    assert plan_of(found.__getitem__, ["n1"]) == {}
    assert plan_of(found.__getitem__, ["n1", "ctl1"]) == PLAN


def test_a_failure_after_it_goes_forward_only():
    found = run(db1=STOPPED, ctl1=UP, ctl2=failed("Start slurmctld: no"))
    assert found.hosts("back") == found.hosts("nodes") == []
    assert "there is no way back" in found.verdict()["msg"]
    # Of an earlier call, too.
    assert run({"served": True}, db1=STOPPED, ctl2=failed()).hosts("back") == []


def test_a_primary_that_is_lost_while_it_starts_may_serve_and_is_not_taken_back():
    found = run(db1=STOPPED, ctl1={"__upgrade_primary": {"unreachable": True}})
    assert found.hosts("back") == found.hosts("core") == found.hosts("nodes") == []
    message = found.verdict()["msg"]
    assert "It is unknown whether slurmctld of 26.05 has served, so nothing was restored" in message
    assert "ctl1: no answer by SSH" in message


def test_a_call_that_continues_and_fails_early_does_not_say_that_all_daemons_run():
    message = run({"resume": True}, ctl1=failed("Download: apt")).verdict()["msg"]
    assert "The upgrade of an earlier call is unfinished" in message
    assert "Nothing was stopped" not in message


def test_a_call_that_continues_after_the_release_has_served_stops_no_daemon():
    found = run({"served": True})
    assert found.hosts("database_before") == found.hosts("core_before") == []
    assert (found.hosts("database"), found.hosts("standbys")) == (["db1"], ["ctl2"])


def test_a_failure_on_the_way_back_ends_it_and_names_the_copies():
    found = run(db1={**STOPPED, **failed()}, ctl1={"__upgrade_back_failure": "Restore: disk full"})
    assert found.hosts("back_database") == []
    message = found.verdict()["msg"]
    assert "/var/lib/bedplate/slurm-upgrade/24.11-26.05" in message
    assert "ctl1: on the way back: Restore: disk full" in message


@pytest.mark.parametrize(
    "back",
    [{}, {"__upgrade_restored": {"unreachable": True}}, {**BACK_CTLD, "__upgrade_aside": {"unreachable": True}}],
)
def test_a_way_back_without_an_answer_is_not_reported_as_done(back: dict[str, Any]):
    found = run(db1={**STOPPED, **failed(), **BACK_DBD}, ctl1=back).verdict()
    assert "The way back to Slurm 24.11 failed too" in found["msg"]
    assert "is back" not in found["msg"]


def test_nodes_stop_after_the_failures_that_the_operator_allows():
    one = {"n1": failed("Start slurmd: no"), "ctl1": UP}
    assert run(**one).stopped() == "1 hosts failed, of at most 0 (upgrade_failures): n1"
    assert run(**one).hosts("others") == []
    tolerant = run({"failures": 1}, **one)
    assert tolerant.stopped() == ""
    assert tolerant.hosts("nodes") == ["n2", "n3"]


def test_the_report_of_a_whole_upgrade():
    done = {"__upgrade_done": True}
    core = {"__upgrade_finished": {"changed": True}}
    found = run(db1=core, ctl1={**core, **UP}, ctl2=core, n1=done, n2=done, n3=done, login1=done).verdict()
    assert found == {
        "failed": False,
        "msg": "done: ctl[1-2],db1,login1,n[1-3]",
        "outcomes": {"done": "ctl[1-2],db1,login1,n[1-3]"},
    }


def test_a_node_that_was_not_upgraded_makes_the_run_fail():
    core, done = {"__upgrade_finished": {}}, {"__upgrade_done": True}
    found = run(db1=core, ctl1={**core, **UP}, ctl2=core, n1=done, n2=done, login1=done).verdict()
    assert found["failed"]
    assert found["outcomes"]["waiting"] == "n3"
