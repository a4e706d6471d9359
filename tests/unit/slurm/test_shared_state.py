# SPDX-License-Identifier: GPL-3.0-or-later
"""StateSaveLocation is proved before two controllers keep their state there."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.shared_state import (
    check,
    holds_state,
    leave_mark,
    remove,
    unseen_machines,
)
from ansible_collections.bedplate.cluster.plugins.modules import slurm_shared_state
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.state_guard import marks, refuse
from tests.kit import sentences
from tests.kit.module import Module, result_of

SENTENCES = Path(__file__).with_name("sentences.txt")
ME = getpass.getuser()
OTHER = "nobody" if ME != "nobody" else "daemon"


def left(path: Path, name: str) -> str:
    token, found = leave_mark(path, name, ME)
    assert found is None
    return token


def test_controllers_that_share_a_directory_see_each_other_and_leave_nothing(tmp_path: Path):
    tokens = {name: left(tmp_path, name) for name in ("c1", "c2")}
    assert list(unseen_machines(tmp_path, tokens, ME)) == []
    for name in tokens:
        remove(tmp_path, name, ME)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_its_own_is_told(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    tokens = {"c1": left(tmp_path / "a", "c1"), "c2": left(tmp_path / "b", "c2")}
    (on_c1,) = unseen_machines(tmp_path / "a", tokens, ME)
    (on_c2,) = unseen_machines(tmp_path / "b", tokens, ME)
    assert ("c2" in on_c1.expected, "c1" in on_c2.expected) == (True, True)
    assert {on_c1.kind, on_c2.kind} == {"shared-state"}
    sentences.check(SENTENCES, "a controller with a directory of its own", [str(on_c1).replace(str(tmp_path), "")])


def test_a_mark_of_an_earlier_run_proves_nothing_and_goes_with_the_next(tmp_path: Path):
    old = left(tmp_path, "c1")
    assert len(list(unseen_machines(tmp_path, {"c1": f"{old}x"}, ME))) == 1
    new = left(tmp_path, "c1")
    assert len(list(unseen_machines(tmp_path, {"c1": old}, ME))) == 1
    assert list(unseen_machines(tmp_path, {"c1": new}, ME)) == []


def test_the_marks_of_another_controller_stay(tmp_path: Path):
    tokens = {name: left(tmp_path, name) for name in ("c1", "c11")}
    remove(tmp_path, "c1", ME)
    assert [one.expected for one in unseen_machines(tmp_path, tokens, ME)] == [
        one.expected for one in unseen_machines(tmp_path, {"c1": tokens["c1"]}, ME)
    ]


@pytest.mark.parametrize("made", ["", "srv", "srv/slurm"])
def test_the_first_directory_that_is_missing_is_named(tmp_path: Path, made: str):
    (tmp_path / made).mkdir(parents=True, exist_ok=True)
    missing = {"": "srv", "srv": "srv/slurm", "srv/slurm": "srv/slurm/state"}[made]
    found = check(tmp_path / "srv/slurm/state", ME)
    assert found is not None
    assert found.found.split()[0] == str(tmp_path / missing)
    assert "install -d" in found.remedy
    if made == "srv":
        text = str(found).replace(str(tmp_path), "").replace(f" {ME} ", " USER ")
        sentences.check(SENTENCES, "a directory that is missing", [text])


def test_a_directory_of_somebody_else_is_refused():
    found = check(Path("/usr"), OTHER)
    assert found is not None
    assert found.found == "uid 0"
    assert OTHER in found.remedy


def test_a_directory_that_cannot_be_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(_path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr(Path, "is_dir", refused)
    found = check(tmp_path / "state", ME)
    assert found is not None
    assert found.found == f"Permission denied: {tmp_path}"


def test_a_directory_that_cannot_be_written_is_named_and_has_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_path: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "touch", full)
    token, found = leave_mark(tmp_path, "c1", ME)
    assert found is not None
    assert (token, found.found) == ("", "Read-only file system")


def test_an_unknown_user_is_named():
    found = check(Path("/"), "bedplate-nobody")
    assert found is not None
    assert "bedplate-nobody" in found.where


def test_only_a_directory_with_the_name_of_a_cluster_holds_a_state(tmp_path: Path):
    assert not holds_state(tmp_path, ME)
    (tmp_path / "clustername").write_text("lab|1\n")
    assert holds_state(tmp_path, ME)


def answer(mark: str = "5e1f", in_force: bool = False, *found: str) -> dict[str, Any]:
    rows = [{"kind": "shared-state", "where": "/state", "expected": "it", "found": one} for one in found]
    return {"findings": rows, "mark": mark, "in_force": in_force}


SEEN = {"findings": []}
UNREACHABLE = {"unreachable": True, "changed": False}


def test_a_proved_directory_is_not_refused():
    assert refuse(["c1", "c2"], {"c1": answer(), "c2": answer()}, {"c1": SEEN, "c2": SEEN}) == ""


def test_all_that_is_wrong_is_told_at_once_with_its_controller():
    told = refuse(
        ["c1", "c2", "c3"],
        {"c1": answer("", False, "no c1"), "c2": answer(), "c3": answer()},
        {
            "c1": SEEN,
            "c2": {"findings": [{"kind": "shared-state", "where": "/state", "expected": "c3", "found": "no c3"}]},
            "c3": SEEN,
        },
    )
    assert [line.partition(":")[0] for line in told.splitlines()] == ["c1", "c2"]


@pytest.mark.parametrize("silent", [UNREACHABLE, {}, {"failed": True, "findings": []}, None])
def test_a_controller_that_was_not_asked_stops_a_first_start_only(silent: Any):
    names = ["c1", "c2", "c3"]
    first = {"c1": answer(), "c2": answer(), "c3": silent}
    refused = refuse(names, first, {"c1": SEEN, "c2": SEEN, "c3": silent})
    assert "c3" in refused
    sentences.check(SENTENCES, "a controller that was not asked", [refused])
    running = {**first, "c2": answer(in_force=True)}
    assert refuse(names, running, {"c1": SEEN, "c2": SEEN, "c3": silent}) == ""


def test_nobody_who_answers_proves_nothing():
    assert "c[1-2]" in refuse(["c1", "c2"], {}, {})


def test_marks_are_those_of_controllers_that_left_one():
    assert marks(["c1", "c2", "c3"], {"c1": answer("a"), "c2": answer("", False, "x"), "c3": UNREACHABLE}) == {
        "c1": "a"
    }


@pytest.mark.parametrize("check_mode", [True, False])
def test_in_check_mode_no_mark_is_left(tmp_path: Path, check_mode: bool):
    done = slurm_shared_state._leave(tmp_path, "c1", ME, in_force=False, check=check_mode)
    assert (bool(done["mark"]), len(list(tmp_path.iterdir()))) == (not check_mode, int(not check_mode))


@pytest.mark.parametrize("in_force", [True, False])
def test_state_of_a_controller_without_slurm_conf_is_not_its_own(tmp_path: Path, in_force: bool):
    (tmp_path / "clustername").write_text("x")
    assert holds_state(tmp_path, ME)
    assert slurm_shared_state._leave(tmp_path, "c1", ME, in_force=in_force, check=False)["in_force"] is in_force


def run(
    monkeypatch: pytest.MonkeyPatch, step: str, path: Path, marks: dict[str, str], check_mode: bool = False
) -> dict[str, Any]:
    params = {"step": step, "path": str(path), "user": ME, "name": "c1", "marks": marks, "directory": str(path)}
    return result_of(monkeypatch, slurm_shared_state, Module(params, check_mode))


def test_a_controller_that_could_leave_no_mark_does_not_blame_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its own finding says why; that it does not see the others follows from it."""
    theirs = {"c2": "4f2a"}
    assert run(monkeypatch, "look", tmp_path, theirs)["findings"] == []
    mine = {"c1": left(tmp_path, "c1")}
    (seen,) = run(monkeypatch, "look", tmp_path, {**mine, **theirs})["findings"]
    assert "c2" in seen["expected"]


@pytest.mark.parametrize("check_mode", [True, False])
def test_in_check_mode_no_mark_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_mode: bool):
    left(tmp_path, "c1")
    run(monkeypatch, "remove", tmp_path, {}, check_mode)
    assert len(list(tmp_path.iterdir())) == int(check_mode)
