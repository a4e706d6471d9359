# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources in check mode, keyrings of dnf, and files and records of others: without apt and dnf."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_writer import Keep, apply
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.journal import Journal, Kept
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.dnf_check import DnfCheck
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.foreign_sources import (
    RECORD,
    ForeignSources,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.source_change import SourceChange

URL = "https://m.example.org/cuda"


class Machine:
    """A machine with directories of apt and dnf, whose programs say what `answer` is."""

    def __init__(self, base: Path) -> None:
        self.apt, self.yum, self.cache, self.state = (base / name for name in ("apt", "yum", "cache", "state"))
        self.parts = self.apt / "sources.list.d"
        for directory in (self.parts, self.yum, self.cache, self.state):
            directory.mkdir(parents=True)
        self.calls: list[list[str]] = []
        self.answer = Outcome(0, "", "")
        self.deb = DesiredFile(
            str(self.parts / "bedplate.sources"), content=f"Types: deb\nURIs: {URL}\nSuites: /\n".encode()
        )
        self.rpm = DesiredFile(str(self.yum / "bedplate.repo"), content=f"[bedplate]\nbaseurl={URL}\n".encode())

    def run(self, argv: list[str]) -> Outcome:
        self.calls.append(argv)
        return self.answer

    def deploy(self, *wanted: DesiredFile, policy: str = "take_over", check: bool = False) -> dict[str, Any]:
        foreign = ForeignSources(self.state, check, apt=self.apt, yum=self.yum, run=self.run)

        def write(files: list[DesiredFile], keep: Keep) -> dict[str, Any]:
            return apply("gpu.sources", files, self.state, check, True, str(self.state), keep=keep)

        change = SourceChange("gpu", self.state, foreign, True, write, DnfCheck(self.yum, self.cache, self.run))
        return change.apply(list(wanted), {"policy": policy, "vendor": []})

    def tree(self) -> dict[str, tuple[int, bytes]]:
        """Return mode and content of every file."""
        directories = (self.apt, self.yum, self.cache, self.state)
        return {
            str(path): (path.stat().st_mode & 0o7777, path.read_bytes())
            for directory in directories
            for path in directory.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def keyring(machine: Machine) -> Path:
    path = machine.cache / "bedplate-0123456789abcdef/pubring"
    path.mkdir(parents=True)
    (path / "key").write_text("")
    return path


def killed_run(machine: Machine) -> Journal:
    """Leave the journal of a run that was killed before its first file."""
    journal = Journal(machine.state, "gpu.sources")
    journal.keep({str(machine.parts / "x.list"): Kept(None, None)}, {})
    return journal


def test_keyrings_of_changed_repositories_are_removed_and_stay_where_nothing_changes(machine: Machine) -> None:
    path = keyring(machine)
    machine.deploy(machine.rpm)
    assert not path.exists()
    path.mkdir()
    assert not machine.deploy(machine.rpm)["changed"]
    assert path.exists()


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_check_mode_runs_nothing_and_leaves_keyrings_and_the_journal(machine: Machine, kind: str) -> None:
    keyring(machine)
    killed_run(machine)
    before = machine.tree()
    assert machine.deploy(getattr(machine, kind), check=True)["changed"]
    assert (machine.tree(), machine.calls) == (before, [])


def test_what_check_mode_refuses_leaves_the_journal_of_a_killed_run(machine: Machine) -> None:
    (machine.parts / "theirs.list").write_text(f"deb [signed-by=/x.gpg] {URL} /\n")
    killed_run(machine)
    before = machine.tree()
    with pytest.raises(NodeFilesError) as failure:
        machine.deploy(machine.deb, policy="refuse", check=True)
    assert [one.partition(": ")[0] for one in failure.value.problems] == [f"{machine.parts}/theirs.list:1"]
    assert (machine.tree(), machine.calls) == (before, [])


def test_check_mode_sets_nothing_aside_and_puts_nothing_back(machine: Machine) -> None:
    theirs = machine.parts / "theirs.list"
    theirs.write_text(f"deb [signed-by=/x.gpg] {URL} /\n")
    before = machine.tree()
    assert machine.deploy(machine.deb, check=True)["removed"] == [str(theirs)]
    assert machine.tree() == before
    machine.deploy(machine.deb)
    after = machine.tree()
    assert machine.deploy(check=True)["changed_files"] == [str(theirs)]
    assert machine.tree() == after


def test_mode_and_owner_of_a_source_of_others_stay_and_return(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed, whole = machine.apt / "sources.list", machine.parts / "theirs.list"
    for path in (mixed, whole):
        path.write_text(f"deb [signed-by=/x.gpg] {URL} /\n")
        path.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(path, 12345, 54321)
    owner = (mixed.stat().st_uid, mixed.stat().st_gid)
    machine.deploy(machine.deb)
    assert not whole.exists()
    machine_record = json.loads((machine.state / RECORD).read_text())
    assert {(row["uid"], row["gid"], row["mode"]) for row in machine_record.values()} == {(*owner, 0o600)}
    kept = [mixed.stat()]
    machine.deploy()
    kept += [mixed.stat(), whole.stat()]
    assert [(one.st_uid, one.st_gid, one.st_mode & 0o7777) for one in kept] == [(*owner, 0o600)] * 3


@pytest.mark.parametrize(
    "record", ["{", "[]", '{"/x": 1}', '{"/x": {"content": ""}}', None],
    ids=["no-json", "list", "number", "no-mode", "directory"],
)  # fmt: skip
def test_a_record_that_cannot_be_read_stops_a_change_before_a_source_is_set_aside(
    machine: Machine, record: str | None
) -> None:
    (machine.parts / "theirs.list").write_text(f"deb [signed-by=/x.gpg] {URL} /\n")
    path = machine.state / RECORD
    if record is None:
        path.mkdir()
    else:
        path.write_text(record)
    before = machine.tree()
    with pytest.raises(NodeFilesError) as failure:
        machine.deploy(machine.deb)
    assert failure.value.problems[0].startswith(f"{path}: cannot be read: ")
    assert machine.tree() == before
