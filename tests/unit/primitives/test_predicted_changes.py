# SPDX-License-Identifier: GPL-3.0-or-later
"""Two tasks of one role share a file and a unit: check mode predicts for each what the run changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible import constants

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import file_writer
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import Systemd
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import predicted_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Step
from tests.unit.parts.test_part_action import DEPLOY, Part
from tests.unit.primitives.units.test_systemd import DOWN, UP, Machine

ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


@pytest.fixture(autouse=True)
def _run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))


def write(base: Path, manifest: str, *names: str, check: bool = False, predicted: list[str] | None = None) -> dict:
    files = [DesiredFile(str(base / name), content=b"x\n", **ME) for name in names]
    return file_writer.apply(manifest, files, base / "state", check, False, str(base), predicted=predicted or [])


@pytest.mark.parametrize("again", [False, True])
def test_a_shared_file_changes_in_the_first_task_alone(tmp_path: Path, again: bool) -> None:
    """`again`: both tasks have the file on record, and it has other content."""
    names = {"one": ["shared"], "two": ["shared", "own"]}
    if again:
        for manifest, files in names.items():
            write(tmp_path, manifest, *files)
        (tmp_path / "shared").write_text("old\n")
    predicted: list[str] = []
    foretold = []
    for manifest, files in names.items():
        found = write(tmp_path, manifest, *files, check=True, predicted=predicted)
        predicted += found["changed_files"]
        foretold.append((found["changed"], found["changed_files"]))
    done = [write(tmp_path, manifest, *files) for manifest, files in names.items()]
    assert foretold == [(one["changed"], one["changed_files"]) for one in done]
    assert [changed for changed, _files in foretold] == [True, not again]


def test_a_prediction_counts_in_check_mode_alone(tmp_path: Path) -> None:
    found = write(tmp_path, "one", "shared", predicted=[str(tmp_path / "shared")])
    assert found["changed_files"] == [str(tmp_path / "shared")]
    assert (tmp_path / "shared").read_text() == "x\n"


UNIT = {"name": "a.service", "enabled": True, "state": "started", "restart_after": ["/shared", "/own"]}


def actions(
    machine: Machine, base: Path, touched: tuple[str, ...], predicted: dict[str, list[str]], **more: Any
) -> Any:
    units, _mistakes = read_units([{**UNIT, **more}])
    systemd = Systemd(True, False, settle=0.01, run=machine.run, touched=touched, predicted=predicted)
    return systemd.apply(units, base / "state", str(base / "system"))["actions"]


@pytest.mark.parametrize(
    ("touched", "predicted", "wanted"),
    [
        ((), {"files": [], "units": ["a.service"]}, []),
        ((), {"files": ["/shared"], "units": ["a.service"]}, []),
        ((), {"files": ["/shared"], "units": []}, ["restart a.service"]),
        (("/own",), {"files": ["/shared"], "units": ["a.service"]}, ["restart a.service"]),
    ],
)
def test_a_shared_unit_changes_again_only_for_a_file_of_this_task(
    tmp_path: Path, touched: tuple[str, ...], predicted: dict[str, list[str]], wanted: list[str]
) -> None:
    machine = Machine({"a.service": UP})
    machine.units["a.service"] = UP.__class__(**{**UP.__dict__, "file": "enabled"})
    assert actions(machine, tmp_path, touched, predicted) == wanted


def test_a_unit_that_an_earlier_task_starts_is_not_started_again(tmp_path: Path) -> None:
    assert actions(Machine({"a.service": DOWN}), tmp_path, (), {"files": [], "units": ["a.service"]}) == []


@pytest.mark.parametrize("check", [True, False])
def test_a_task_hands_its_predictions_to_later_ones_of_its_role_and_host(check: bool) -> None:
    first = {"changed": True, "changed_files": ["/a"], "actions": ["daemon-reload", "restart a.service b.service"]}
    for host, role, results, wanted in (
        ("n1", "slurm", [first], {"files": [], "units": []}),
        (
            "n1",
            "slurm",
            [{"changed": True, "changed_files": ["/b"]}],
            {"files": ["/a"], "units": ["a.service", "b.service"]},
        ),
        ("n2", "slurm", [{}], {"files": [], "units": []}),
        ("n1", "rdma", [{}], {"files": [], "units": []}),
        ("n1", "slurm", [{}], {"files": ["/a", "/b"], "units": ["a.service", "b.service"]}),
    ):
        action = Part(*results)
        action._task_vars, action._role, action._task.check_mode = {"inventory_hostname": host}, role, check
        action._in_order([("one", Step(DEPLOY, {"units": []}))])
        assert action.ran[0][1].get("predicted") == (wanted if check else None)
    assert predicted_changes.predicted("n3", "slurm") == {"files": [], "units": []}
