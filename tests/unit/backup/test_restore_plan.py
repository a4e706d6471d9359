# SPDX-License-Identifier: GPL-3.0-or-later
"""What a restore does to each host and each job, and every reason against it at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_list import BackedUpJobs
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import Manifest
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import restore_jobs, restore_plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.opened_backup import OpenedBackup
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_jobs import JobFates, fates
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_refusals import refusals
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_site import RestoreSite

JOBS = BackedUpJobs(1000, running=(41, 42), waiting=(43,), later=(45,))
MEMBERS: Mapping[str, Mapping[str, Any]] = {
    "state.tar": {"bytes": 9, "sha256": "a" * 64, "files": 7, "next_job": 46},
    "database.sql": {"bytes": 9, "sha256": "b" * 64, "rows": {"lab_job_table": 12, "qos_table": 1}},
    "files.tar": {"bytes": 9, "sha256": "c" * 64, "files": 3},
}
MANIFEST = Manifest("lab", "ctl1", 1000, "24.11.5", JOBS, MEMBERS)
NEW = {
    "backup": "",
    "steps": {},
    "controller": {"runs": False, "files": 0},
    "database": {"runs": False, "jobs": 0, "largest": 0},
}
SITE = RestoreSite(
    cluster="lab",
    release="24.11",
    controllers=["ctl1"],
    database=["ctl1"],
    backup=OpenedBackup("d" * 64, {"ctl1": MANIFEST, "site": Manifest("lab", "site", 1001)}, {"munge_key": b"m"}),
    looks={"ctl1": NEW},
    nodes={"gpu01": {"jobs": [41, 42], "munge": "k"}, "gpu02": {"jobs": [42], "munge": "k"}},
    munge="k",
)


def reasons(site: RestoreSite, over: bool = False, accept: bool = False, gap: int = 10) -> list[str]:
    return refusals(site, fates(site.jobs(), site.on_nodes()), over, accept, site.next_job(gap))


def look(**found: Any) -> dict[str, Any]:
    return {"ctl1": {**NEW, **found}}


def test_a_new_controller_with_all_jobs_of_the_backup():
    assert reasons(SITE) == []
    found = fates(JOBS, SITE.on_nodes())
    assert found == JobFates([41, 42], {}, {})
    planned = restore_plan.plan(SITE, found, False, SITE.next_job(10), ["jwt_key"])
    assert planned["core"] == planned["database"] == ["ctl1"]
    assert planned["next_job"] == 56
    text = restore_plan.preview(SITE, planned, found)
    for part in ("2 tables with 13 rows", "7 files", "from 56", "[41-42]", "jwt_key", "Slurm 24.11.5"):
        assert part in text


def test_jobs_that_the_backup_lacks_are_named_and_refused():
    site = replace(SITE, nodes={"gpu01": {"jobs": [41, 43, 45, 50], "munge": "k"}})
    found = fates(JOBS, site.on_nodes())
    assert set(found.ended) == {43, 45, 50}
    assert set(found.missing) == {42}
    text = "\n".join(reasons(site))
    assert "3 running jobs would be ended; -e restore_loses_jobs=accept" in text
    assert "job 43: runs on gpu01, and waits in the backup of 1970-01-01 00:16:40 UTC" in text
    assert "job 45: runs on gpu01, and was submitted while" in text
    assert "job 50: runs on gpu01, and was submitted after" in text
    assert reasons(site, accept=True) == []
    # Ids of jobs that run are in use.
    assert site.next_job(10) == 61


def test_a_node_without_an_answer_may_have_jobs():
    site = replace(SITE, lost={"gpu03": "no answer by SSH"})
    assert "gpu03 (no answer by SSH)" in "\n".join(reasons(site))
    assert reasons(site, accept=True) == []
    assert "ctl1: no answer" in "\n".join(reasons(replace(SITE, looks={}, lost={"ctl1": "no answer"}), accept=True))


def test_a_controller_with_state_is_not_replaced():
    running = replace(SITE, looks=look(controller={"runs": True, "files": 7}))
    assert "slurmctld runs" in "\n".join(reasons(running))
    stopped = replace(SITE, looks=look(controller={"runs": False, "files": 7}))
    assert "StateSaveLocation has the state of a slurmctld (7 files)" in "\n".join(reasons(stopped))
    for site in (running, stopped):
        assert "restore_over=true" in "\n".join(reasons(site))
        assert reasons(site, over=True) == []


def test_a_standby_that_runs_is_in_the_way():
    standby = {"controller": {"runs": True, "files": 7}, "steps": {}, "backup": ""}
    site = replace(SITE, controllers=["ctl1", "ctl2"], looks={"ctl1": NEW, "ctl2": standby})
    assert any(one.startswith("ctl2: slurmctld runs") for one in reasons(site))


def test_a_call_after_a_failure_continues_and_one_after_the_end_changes_nothing():
    done = {"state": 5, "database": 4}
    begun = replace(SITE, looks=look(backup="d" * 64, steps=done, controller={"runs": True, "files": 7}))
    assert reasons(begun) == []
    assert not begun.is_finished()
    ended = replace(
        SITE, looks=look(backup="d" * 64, steps={**done, "finished": 6}, controller={"runs": True, "files": 7})
    )
    assert ended.is_finished()
    found = fates(JOBS, ended.on_nodes())
    planned = restore_plan.plan(ended, found, False, 56, [])
    assert planned["core"] == planned["database"] == []
    assert "Nothing is left to do" in restore_plan.preview(ended, planned, found)
    # From another backup it is a new restore.
    other = replace(ended, backup=replace(SITE.backup, digest="e" * 64))
    assert "slurmctld runs" in "\n".join(reasons(other))


READY, RESTORED = {"__restore_ready": {"changed": True}}, {"__restore_database": {"changed": False, "restored": {}}}
SERVES, HAS_JOBS = {"__restore_dbd": {"up": True}}, {"__restore_jobs": {"jobs": [41]}}
LOST = {"unreachable": True, "changed": False}


@pytest.mark.parametrize(
    ("db1", "ctl1", "begins"),
    [
        ({}, {}, ["core"]),
        (READY, {}, ["core"]),
        (READY, READY, ["core", "database"]),
        ({**READY, "__restore_database": LOST}, READY, ["core", "database"]),
        ({**READY, "__restore_database": {"failed": True}}, READY, ["core", "database"]),
        ({**READY, **RESTORED}, READY, ["core", "database", "database_all"]),
        ({**READY, **RESTORED, "__restore_dbd": LOST}, READY, ["core", "database", "database_all"]),
        ({**READY, **RESTORED, **SERVES}, READY, ["core", "database", "database_all", "primary"]),
        (
            {**READY, **RESTORED, **SERVES},
            {**READY, "__restore_jobs": LOST},
            ["core", "database", "database_all", "primary"],
        ),
        ({**READY, **RESTORED, **SERVES}, {**READY, **HAS_JOBS}, list(restore_plan.PLAYS)),
    ],
)
def test_a_play_begins_where_all_before_it_have_succeeded(db1: dict[str, Any], ctl1: dict[str, Any], begins: list[str]):
    """A database host that does not answer must not leave a slurmctld that counts as restored."""
    planned = {
        **{"is_preview": False, "core": ["db1", "ctl1"], "database": ["db1"], "database_all": ["db1"]},
        "primary": "ctl1",
    }
    raw = {"db1": db1, "ctl1": ctl1}.__getitem__
    assert [key for key in restore_plan.PLAYS if restore_plan.hosts(planned, key, raw)] == begins
    preview = {**planned, "is_preview": True}
    assert [key for key in restore_plan.PLAYS if restore_plan.hosts(preview, key, raw)] == []


def test_a_database_that_stays_is_not_waited_for():
    planned = {"is_preview": False, "core": ["ctl1"], "database": [], "database_all": ["ctl1"], "primary": "ctl1"}
    raw = {"ctl1": {**READY, **SERVES}}.__getitem__
    assert restore_plan.hosts(planned, "database", raw) == []
    assert restore_plan.hosts(planned, "primary", raw) == ["ctl1"]


def test_a_database_with_jobs_stays():
    site = replace(SITE, looks=look(database={"runs": True, "jobs": 20, "largest": 90}))
    assert site.keeps_database(over=False)
    assert not site.keeps_database(over=True)
    assert site.next_job(10) == 101
    planned = restore_plan.plan(site, fates(JOBS, site.on_nodes()), False, 101, [])
    assert planned["database"] == []
    assert "stays: it has 20 jobs" in restore_plan.preview(site, planned, fates(JOBS, {}))


@pytest.mark.parametrize("backup", ["d" * 64, "e" * 64])
def test_a_database_of_a_killed_restore_is_restored_again(backup: str):
    found = {"jobs": 20, "largest": 90, "runs": False}
    begun = replace(SITE, looks=look(backup=backup, steps={"database_begun": 1}, database=found))
    assert not begun.keeps_database(over=False)
    planned = restore_plan.plan(begun, fates(JOBS, begun.on_nodes()), False, 101, [])
    assert planned["database"] == ["ctl1"]
    whole = replace(SITE, looks=look(backup="e" * 64, steps={"database_begun": 1, "database": 2}, database=found))
    assert whole.keeps_database(over=False)


def test_the_daemons_stop_before_a_restore_from_another_backup():
    steps = {"database": 1, "configuration": 2, "state": 3, "finished": 4}
    site = replace(SITE, looks=look(backup="e" * 64, steps=steps, controller={"runs": True, "files": 7}))
    planned = restore_plan.plan(site, fates(JOBS, site.on_nodes()), True, 56, [])
    assert planned["stops"] == planned["installs"] == planned["core"] == ["ctl1"]


@pytest.mark.parametrize(
    ("steps", "stops", "installs"),
    [
        ({"database": 1}, ["ctl1"], ["ctl1"]),
        ({"database": 1, "configuration": 2}, ["ctl1"], []),
        ({"database": 1, "configuration": 2, "state": 3}, [], []),
    ],
)
def test_a_call_that_continues_leaves_files_in_force_to_the_role(
    steps: dict[str, int], stops: list[str], installs: list[str]
):
    site = replace(SITE, looks=look(backup="d" * 64, steps=steps))
    planned = restore_plan.plan(site, fates(JOBS, site.on_nodes()), False, 56, [])
    assert (planned["stops"], planned["installs"]) == (stops, installs)


def test_a_database_that_this_backup_was_restored_into_is_restored_again_and_not_kept():
    """An earlier call failed after it: with jobs of the backup alone it is not newer."""
    jobs = {"runs": True, "jobs": 20, "largest": 46}
    site = replace(SITE, looks=look(backup="d" * 64, steps={"database": 4}, database=jobs))
    assert not site.keeps_database(over=False)
    assert restore_plan.plan(site, fates(JOBS, site.on_nodes()), False, 56, [])["database"] == ["ctl1"]
    other = replace(site, backup=replace(SITE.backup, digest="e" * 64))
    assert other.keeps_database(over=False)


def test_a_restore_that_ended_is_made_whole_where_slurmctld_does_not_run():
    steps = {"database": 4, "state": 5, "finished": 6}
    site = replace(SITE, looks=look(backup="d" * 64, steps=steps, controller={"runs": False, "files": 7}))
    assert not site.is_finished()
    assert reasons(site) == []
    assert restore_plan.plan(site, fates(JOBS, site.on_nodes()), False, 56, [])["core"] == ["ctl1"]


def test_a_backup_of_another_cluster_or_release():
    text = "\n".join(reasons(replace(SITE, cluster="west", release="26.05")))
    assert "is of cluster lab, and the cluster file has west" in text
    assert "is of Slurm 24.11.5, and the cluster file has 26.05" in text
    assert "part of site is of Slurm" not in text
    no_state = OpenedBackup("d" * 64, {"site": Manifest("lab", "site", 1001)}, {})
    text = "\n".join(reasons(replace(SITE, backup=no_state)))
    assert "no state of a slurmctld" in text
    assert "has no dump" in text


def test_a_dump_that_is_older_than_the_state():
    state = replace(MANIFEST, members={"state.tar": MEMBERS["state.tar"], "files.tar": MEMBERS["files.tar"]})
    dump = replace(MANIFEST, host="db1", at=900, jobs=None, members={"database.sql": MEMBERS["database.sql"]})
    site = replace(SITE, backup=OpenedBackup("d" * 64, {"ctl1": state, "db1": dump}, {"munge_key": b"m"}))
    assert "the dump is older than the state" in "\n".join(reasons(site))


def test_nodes_with_another_munge_key():
    assert "gpu[01-02]: another munge key than the control node has" in "\n".join(reasons(replace(SITE, munge="x")))
    assert "another munge key than the backup has" in "\n".join(reasons(replace(SITE, munge="")))
    bare = replace(SITE, munge="", backup=replace(SITE.backup, secrets={}))
    assert "neither the control node nor the backup has a munge key" in "\n".join(reasons(bare))


def test_an_id_that_slurm_refuses():
    assert "restore_job_gap" in "\n".join(reasons(SITE, gap=67_043_300))


def test_the_report_names_jobs_that_slurmctld_does_not_have():
    found = fates(JOBS, {41: ["gpu01"], 42: ["gpu01"], 50: ["gpu02"]})
    planned = restore_plan.plan(SITE, found, False, 56, [])
    text, unknown = restore_plan.report(planned, [41], {"ctl1": "13 rows"})
    assert unknown == [42]
    for part in ("ctl1: 13 rows", "1 of 2 jobs of the backup run on", "job 50: runs on gpu02"):
        assert part in text
    assert restore_jobs.text_of(0) == "1970-01-01 00:00:00 UTC"
