# SPDX-License-Identifier: GPL-3.0-or-later
"""Tags of packages, files and services."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Step
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles import phases

ROOT = Path(__file__).parents[3]
TASK_TAGS = ["rdma", *phases.tags("rdma")]


@pytest.mark.parametrize(
    ("run_tags", "chosen"),
    [
        (["all"], phases.ALL),
        ([], phases.ALL),
        (["tagged"], phases.ALL),
        (["rdma"], phases.ALL),
        (["rdma", "rdma_files"], phases.ALL),
        (["rdma_files"], {"files"}),
        (["rdma_packages", "rdma_services", "cuda_files"], {"packages", "services"}),
        # The task runs for another reason, such as a tag of the site's own play.
        (["cuda_files"], phases.ALL),
    ],
)
def test_tags_choose_phases(run_tags: list[str], chosen: set[str]) -> None:
    assert phases.chosen_phases("rdma", run_tags, TASK_TAGS) == chosen


@pytest.mark.parametrize(
    ("arguments", "undivided", "chosen", "only"),
    [
        ({"manifest": "m"}, False, {"files"}, ["files"]),
        ({"manifest": "m"}, False, set(phases.ALL), []),
        ({"manifest": "m"}, True, {"files"}, []),
        ({"take_back": True}, False, {"files"}, ["files", "services"]),
        ({"take_back": True}, False, {"services"}, ["files", "services"]),
        ({"take_back": True}, False, {"packages"}, ["packages"]),
        ({"take_back": True}, False, {"packages", "files"}, []),
        ({"state": "absent"}, False, {"files"}, []),
        ({"state": "absent"}, False, {"packages"}, None),
    ],
)
def test_a_part_is_narrowed_where_that_is_safe(
    arguments: dict[str, object], undivided: bool, chosen: set[str], only: list[str] | None
) -> None:
    found = phases.narrowed(arguments, undivided, frozenset(chosen))
    assert (found if found is None else found.get("only", [])) == only


def test_a_step_without_phases_always_runs() -> None:
    assert phases.runs_step(Step("check", {}), frozenset({"files"}))
    assert phases.runs_step(Step("write", {}, phases=["files"]), frozenset({"files", "packages"}))
    assert not phases.runs_step(Step("write", {}, phases=["files"]), frozenset({"services"}))


def test_units_that_wait_for_a_restart_are_named() -> None:
    units = [
        {"name": "a.service", "restart_after": ["/etc/a"]},
        {"name": "b.service", "reload_after": ["/etc/b"]},
        {"name": "c.service"},
        {"name": "d.service", "restart_after": ["/etc/d"]},
    ]
    changed = ["/etc/a", "/etc/b", "/etc/systemd/system/c.service"]
    waiting = ["a.service", "b.service", "c.service"]
    assert list(phases.waiting_units({"units": units, "only": ["files"]}, changed)) == waiting
    assert list(phases.waiting_units({"units": units, "only": ["files", "services"]}, changed)) == []
    assert list(phases.waiting_units({"units": units}, changed)) == []


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_each_task_of_a_role_has_tags_of_phases(role: str) -> None:
    """A task without them would be left out, also one that stands before a change."""
    for path in sorted((ROOT / "roles" / role / "tasks").glob("*.yml")):
        if (path.stem in ("verify", "before_reboot", "validate") and role != "opensm") or path.stem in WHOLE.get(
            role, ()
        ):
            continue
        for task in yaml.safe_load(path.read_text()):
            tags = task.get("tags", [])
            assert set(tags) <= set(phases.tags(role)), f"{path}: {task['name']}"
            assert tags or task["name"] in UNTAGGED, f"{path}: {task['name']}"


# Imports, whose files have the tags; verify reads only.
WHOLE = {"opensm": ("main", "deploy", "verify")}
# Accounts are neither packages, files nor services.
UNTAGGED = ["Controller | Apply accounts, users and QOS"]
