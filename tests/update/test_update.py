# SPDX-License-Identifier: GPL-3.0-or-later
"""An update of bedplate under running jobs: none is lost, nothing is restarted without a reason, and records are taken over."""

from __future__ import annotations

import json

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE
from ansible_collections.bedplate.cluster.plugins.plugin_utils.releases.default_snapshots import (
    SNAPSHOTS,
    release_numbers,
)
from tests.kit.judge import summary
from tests.kit.workload import KINDS
from tests.update.machine_snapshot import LIBRARY
from tests.update.release_before import release_before
from tests.update.updated_cluster import MACHINES, NODES, Run, Update
from tools.release_defaults import of_commit, text_of

pytestmark = pytest.mark.update


def good(run: Run | None) -> Run:
    assert run is not None
    assert run.rc == 0, run.output[-6000:] + run.warnings
    return run


def test_the_release_before_is_older_and_its_snapshot_is_what_its_commit_has():
    before = release_before()
    assert release_numbers(before.number) < release_numbers(RELEASE)
    snapshot = (SNAPSHOTS / f"{before.number}.json").read_text()
    assert snapshot == text_of(before.number, of_commit(before.commit))


def test_jobs_of_all_kinds_ran_and_waited_before(update: Update):
    states = [job.state for job in update.jobs.jobs.values()]
    # One more for srun from a terminal.
    assert states.count("RUNNING") == sum(kind.running for kind in KINDS) + 1
    assert states.count("PENDING") == sum(kind.waiting for kind in KINDS)


def test_check_succeeds_and_changes_nothing(update: Update):
    good(update.checked)
    for machine in MACHINES:
        before, after = update.before[machine], update.after_check[machine]
        assert after.changed_files(before) == set(), machine
        assert after.restarted(before) == {}, machine
        assert after.record == before.record, machine


def test_check_says_from_which_release_the_cluster_comes(update: Update):
    assert f"update of bedplate from {update.release.number} to {RELEASE}: " in good(update.checked).text


def test_the_update_succeeds(update: Update):
    for run in update.runs:
        good(run)


def test_what_check_predicted_is_what_the_run_changed(update: Update):
    checked, run = good(update.checked), good(update.runs[0])
    assert {host: one["changed"] for host, one in checked.hosts.items()} == {
        host: one["changed"] for host, one in run.hosts.items()
    }


@pytest.mark.parametrize("step", ["check", "site", "rdma", "again", "verify"])
def test_no_job_is_lost(update: Update, step: str):
    steps = {"check": update.checked, "site": update.runs[0], "rdma": update.runs[1]}
    run = {**steps, "again": update.again, "verify": update.verified}[step]
    assert run is not None
    assert run.hurt == [], summary(run.hurt)


@pytest.mark.parametrize("machine", MACHINES)
def test_each_restart_is_explained_by_a_changed_file(update: Update, machine: str):
    before, after = update.before[machine], update.after[machine]
    changed = after.changed_files(before)
    for name, service in after.restarted(before).items():
        assert name in after.services, f"{name} runs no more"
        causes = {
            path
            for run in update.runs
            for one in run.tasks
            if one["host"] == machine
            for path in one["units"].get(name, ())
        }
        assert changed & {*causes, *service.files, *after.services[name].files}, (
            f"{name} was restarted without a reason"
        )


def test_an_update_that_changes_no_file_of_slurm_restarts_none_of_its_daemons(update: Update):
    """Also not by way of another unit, to which one of them is bound."""
    for machine in MACHINES:
        before, after = update.before[machine], update.after[machine]
        daemons = {name for name in before.services if name.startswith(("slurm", "sackd", "munge", "mariadb"))}
        assert daemons, machine
        if not [path for path in after.changed_files(before) if "slurm" in path or "munge" in path]:
            assert daemons & set(after.restarted(before)) == set(), machine


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("program", ["tuning", "rdma"])
def test_units_whose_programs_changed_run_the_new_ones(update: Update, node: str, program: str):
    before, after, unit = update.before[node], update.after[node], f"bedplate-{program}.service"
    assert unit in before.services
    assert unit in after.services
    # Before 0.2.0 all programs were in one folder.
    places = tuple(f"{LIBRARY}/{folder}/" for folder in (program, "lib"))
    changed = [path for path in after.changed_files(before) if path.startswith(places)]
    assert (unit in after.restarted(before)) == bool(changed)


@pytest.mark.parametrize("machine", MACHINES)
def test_records_are_taken_over_and_nothing_of_the_release_before_is_left(update: Update, machine: str):
    before, after = update.before[machine], update.after[machine]
    # Since 0.2.0 the part of the driver has a file, the name of the node's lock.
    assert after.manifests == before.manifests | ({"gpu_driver_packages"} if machine in NODES else set())
    files, old = after.record["files"], before.record["files"]
    gone = [path for path in old if path not in files]
    assert [path for path in gone if path in after.digests] == []
    managed = {
        path for path, entry in files.items() if entry["type"] == "file" and path.startswith(("/etc/", "/usr/local/"))
    }
    assert [path for path in managed if path not in after.digests] == []
    programs = {path for path in after.digests if path.startswith(f"{LIBRARY}/")}
    assert programs == {path for path in files if path in programs}


def test_a_second_run_changes_nothing(update: Update):
    assert {host: one["changed"] for host, one in good(update.again).hosts.items() if one["changed"]} == {}
    assert "update of bedplate" not in good(update.again).text


def test_verify_has_nothing_to_say_but_that_there_is_no_gpu(update: Update):
    good(update.verified)
    assert [one for one in update.findings if one["kind"] != "not-checked"] == [], json.dumps(update.findings)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_release_is_recorded_by_the_update_alone(update: Update, machine: str):
    if update.release.number == "0.1.0":
        assert "release" not in update.before[machine].record
    assert update.after_check[machine].record.get("release") == update.before[machine].record.get("release")
    assert update.after[machine].record["release"] == RELEASE
