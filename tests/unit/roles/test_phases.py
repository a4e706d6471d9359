# SPDX-License-Identifier: GPL-3.0-or-later
"""Tags of packages, files and services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Step
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import part_file, parts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles import phases
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import ROLES as NAMES

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


@pytest.mark.parametrize(("role", "part"), [(role, part) for role in NAMES for part in parts_of(role)])
def test_each_phase_of_a_part_has_its_tag(role: str, part: str) -> None:
    """Else a run with that tag alone would deploy nothing of it, and say that all is well."""
    name = part.removesuffix("_absent")
    tasks = [
        task
        for path in sorted((ROOT / "roles" / role / "tasks").glob("*.yml"))
        for task in _single(yaml.safe_load(path.read_text()))
        if name in _listed((task.get("bedplate.cluster.part") or {}).get("name"))
    ]
    document = part_file(role, part)
    keys = {"packages": ("packages", "sources", "repositories"), "files": ("files",), "services": ("units",)}
    used = [phase for phase, ones in keys.items() if document.get("undivided") or any(one in document for one in ones)]
    assert tasks
    for task in tasks:
        assert {f"{role}_{phase}" for phase in used} <= set(task["tags"]), task["name"]


def test_parts_that_any_tag_deploys_whole() -> None:
    """A driver without its files, or a plugin that Slurm loads and that is missing, would stop jobs."""
    undivided = {(role, part) for role in NAMES for part in parts_of(role) if part_file(role, part).get("undivided")}
    assert undivided == {
        ("gpu_driver", "driver"),
        ("container_runtime", "pyxis"),
        ("container_runtime", "pyxis_build"),
        # It compares, and deploys nothing.
        ("slurm", "installed"),
        ("slurm", "crypt"),
        # One munged for two keys, or none: half of it would be a machine without munge.
        ("slurm", "munge_pair"),
        ("slurm", "munge_pair_absent"),
    }


def _single(tasks: list[dict[str, Any]], tags: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """Yield each task with its tags, those of its block among them."""
    for task in tasks:
        own = (*tags, *task.get("tags", ()))
        if "block" in task:
            yield from _single([*task["block"], *task.get("rescue", ()), *task.get("always", ())], own)
        else:
            yield {**task, "tags": own}


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else [value]


# Imports, whose files have the tags; verify reads only.
WHOLE = {"opensm": ("main", "deploy", "verify")}
# Accounts are neither packages, files nor services.
UNTAGGED = ["Controller | Apply accounts, users and QOS"]
