"""A change of files and units that fails leaves what was before, on disk and in the records."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import files
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import file_writer
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.write_problem import write_problem
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.transaction import Transaction
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import Systemd, UnitsError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import Unit
from tests.kit import sentences
from tests.unit.primitives.units.test_systemd import DOWN, UP, Machine

SENTENCES = Path(__file__).with_name("sentences.txt")
ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


class Node:
    """A machine below a temporary directory, with one daemon that reads one file."""

    def __init__(self, base: Path) -> None:
        self.root, self.state = base / "root", base / "state"
        self.root.mkdir()
        (base / "scratch").mkdir()
        self.scratch = base / "scratch"
        self.machine = Machine({"d.service": replace(UP, started=1.0)})
        self.unit = Unit(
            "d.service",
            enabled=True,
            state="started",
            reload_after=(str(self.root / "d.conf"),),
            reload_command=("tool", "again"),
            proof=("probe",),
        )

    def systemd(self, check: bool = False) -> Systemd:
        systemd = Systemd(check, False, settle=0.01, run=self.machine.run)
        systemd.proof_timeout = 0.05
        return systemd

    def transaction(self) -> Transaction:
        return Transaction(self.state, "demo", [self.unit], self.systemd)

    def wanted(self, **contents: str) -> list[DesiredFile]:
        return [DesiredFile(str(self.root / name), content=text.encode(), **ME) for name, text in contents.items()]

    def write(self, wanted: list[DesiredFile], transaction: Transaction | None = None, manifest: str = "demo") -> None:
        keep = transaction.keep if transaction else None
        file_writer.apply(manifest, wanted, self.state, False, False, str(self.scratch), keep=keep)

    def tree(self) -> dict:
        return {
            str(path.relative_to(self.root)): (
                path.lstat().st_mode,
                path.lstat().st_uid,
                str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None,
            )
            for path in sorted(self.root.rglob("*"))
        }

    def records(self) -> dict:
        return json.loads((self.state / "files.json").read_text())["files"]

    @property
    def journal(self) -> Path:
        return self.state / "take_back" / "demo.json"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def changed(node: Node) -> list[DesiredFile]:
    """Return another content, another mode, a new file in a new directory, a link for another; `gone` is dropped."""
    root = node.root
    return [
        DesiredFile(str(root / "d.conf"), content=b"new\n", **ME),
        DesiredFile(str(root / "mode"), content=b"m\n", mode="0600", **ME),
        DesiredFile(str(root / "link"), state="link", target="elsewhere"),
        DesiredFile(str(root / "sub/dir/file"), content=b"n\n", **ME),
    ]


def first(node: Node) -> None:
    root = node.root
    (root / "mine").write_text("not of bedplate\n")
    node.write(
        [
            *node.wanted(**{"d.conf": "old\n", "mode": "m\n", "kept/gone": "g\n"}),
            DesiredFile(str(root / "link"), state="link", target="here"),
        ]
    )


def test_all_of_the_old_state_comes_back_byte_for_byte_with_its_records(node: Node):
    first(node)
    before, records = node.tree(), node.records()
    transaction = node.transaction()
    node.write(changed(node), transaction)
    assert node.tree() != before
    text = transaction.take_back("no good")
    assert (node.tree(), node.records()) == (before, records)
    assert text.startswith("no good")
    assert "d.service" in text
    assert not node.journal.exists()
    # The daemon reads the old files again, and does its work.
    assert node.machine.writes == ["tool again", "probe", "probe"]


def test_what_is_not_touched_keeps_its_inode(node: Node):
    first(node)
    inode = (node.root / "mode").stat().st_ino
    transaction = node.transaction()
    node.write(changed(node), transaction)
    transaction.take_back("no good")
    assert (node.root / "mode").stat().st_ino == inode


def test_a_killed_run_is_taken_back_when_the_next_fails_too(node: Node):
    first(node)
    before, records = node.tree(), node.records()
    node.write(changed(node), node.transaction())
    # The process is gone here; a file that was about to be renamed lies about.
    (node.root / ".d.conf.0123abcd.tmp").write_text("half")
    assert node.journal.exists()
    assert node.journal.stat().st_mode & 0o777 == 0o600
    later = node.transaction()
    assert later.journal.left_behind
    node.write(node.wanted(**{"d.conf": "third\n", "more": "x\n"}), later)
    later.take_back("no good either")
    assert (node.tree(), node.records()) == (before, records)


def test_a_killed_run_is_completed_by_the_next_that_succeeds(node: Node):
    first(node)
    node.write(changed(node), node.transaction())
    later = node.transaction()
    node.write(changed(node), later)
    later.commit()
    assert not node.journal.exists()
    assert (node.root / "d.conf").read_text() == "new\n"


def test_an_unreadable_journal_stops_the_run_and_is_named(node: Node):
    node.journal.parent.mkdir(parents=True)
    node.journal.write_text("{")
    with pytest.raises(NodeFilesError) as caught:
        node.transaction()
    assert str(node.journal) in str(caught.value)


def test_nothing_changed_is_nothing_to_take_back(node: Node):
    assert node.transaction().take_back("no good") == "no good"
    assert node.machine.commands == []


def test_a_unit_that_did_not_run_before_is_stopped_and_disabled(node: Node):
    node.machine.units["d.service"] = DOWN
    transaction = node.transaction()
    node.write(node.wanted(**{"d.conf": "new\n"}), transaction)
    node.machine.units["d.service"] = replace(DOWN, active="failed", file="enabled")
    transaction.take_back("does not start")
    assert node.tree() == {}
    assert node.machine.writes == ["stop d.service", "reset-failed d.service", "disable d.service"]


def test_a_unit_that_was_enabled_and_did_not_run_stays_enabled(node: Node):
    node.machine.units["d.service"] = replace(DOWN, file="enabled")
    transaction = node.transaction()
    node.write(node.wanted(**{"d.conf": "new\n"}), transaction)
    node.machine.units["d.service"] = replace(DOWN, active="failed", file="enabled")
    transaction.take_back("does not start")
    assert node.machine.writes == ["stop d.service", "reset-failed d.service"]


def test_a_unit_that_died_on_the_new_files_is_started_on_the_old(node: Node):
    first(node)
    transaction = node.transaction()
    node.write(changed(node), transaction)
    node.machine.units["d.service"] = replace(UP, active="failed")
    transaction.take_back("died")
    assert node.machine.writes[:2] == ["reset-failed d.service", "start d.service"]
    assert (node.root / "d.conf").read_text() == "old\n"


def test_a_daemon_that_cannot_reload_the_old_files_is_restarted(node: Node, monkeypatch: pytest.MonkeyPatch):
    first(node)
    transaction = node.transaction()
    node.write(changed(node), transaction)
    node.machine.refuses = "tool"
    run = node.machine.run

    def stuck_until_restarted(argv: list[str], timeout: float):
        if "restart" in argv:
            node.machine.refuses = ""
        return run(argv, timeout)

    monkeypatch.setattr(node.machine, "run", stuck_until_restarted)
    text = transaction.take_back("hangs")
    assert "restart d.service" in node.machine.writes
    assert "NOT" not in text


def test_a_unit_that_does_not_work_on_the_old_files_either_is_reported_and_the_journal_stays(node: Node):
    first(node)
    transaction = node.transaction()
    node.write(changed(node), transaction)
    node.machine.refuses = "probe"
    text = transaction.take_back("no good")
    assert "NOT be restored" in text
    assert str(node.journal) in text
    assert node.journal.exists()
    assert (node.root / "d.conf").read_text() == "old\n"


def test_the_proof_of_a_unit_that_was_reloaded_is_asked_for(node: Node):
    first(node)
    node.machine.refuses = "probe"
    with pytest.raises(UnitsError, match=r"^d\.service: .* probe: no answer") as caught:
        node.systemd().apply([node.unit], node.state, str(node.root))
    sentences.check(SENTENCES, "a unit that runs without its proof", str(caught.value).splitlines()[:1])


def test_a_unit_that_dies_of_its_reload_is_an_error(node: Node, monkeypatch: pytest.MonkeyPatch):
    first(node)
    run = node.machine.run

    def dies(argv: list[str], timeout: float):
        if argv[0] == "tool":
            node.machine.units["d.service"] = replace(UP, active="failed")
        return run(argv, timeout)

    monkeypatch.setattr(node.machine, "run", dies)
    with pytest.raises(UnitsError, match=r"^d\.service: .* failed") as caught:
        node.systemd().apply([node.unit], node.state, str(node.root))
    sentences.check(SENTENCES, "a unit that dies of its reload", str(caught.value).splitlines()[:1])


def test_a_check_run_writes_no_journal_and_takes_nothing_back(node: Node):
    first(node)
    transaction = node.transaction()
    file_writer.apply(
        "demo", changed(node), node.state, True, False, str(node.scratch), keep=transaction.keep
    )  # fmt: skip
    assert not node.journal.exists()


def test_the_journal_is_for_root_alone_and_on_the_disk_before_a_file_changes(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    """It has the contents of secrets; without it on the disk a power failure leaves half a change that nobody can take back."""
    first(node)
    before = node.tree()
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def look(descriptor: int) -> None:
        synced.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), node.tree() == before))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    node.write(changed(node), node.transaction())
    (content,) = [unchanged for path, unchanged in synced if Path(path).name.startswith(".demo.json.")]
    directory = next(unchanged for path, unchanged in synced if path == str(node.journal.parent))
    assert (content, directory) == (True, True)
    assert node.journal.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_in_the_place_of_a_temporary_one_is_not_followed(node: Node, monkeypatch: pytest.MonkeyPatch):
    """A program that may write beside a file of bedplate could have the old content written anywhere."""
    first(node)
    transaction = node.transaction()
    node.write(changed(node), transaction)
    monkeypatch.setattr(files.secrets, "token_hex", lambda _bytes: "0123abcd")
    elsewhere = node.scratch / "elsewhere"
    (node.root / ".d.conf.0123abcd.tmp").symlink_to(elsewhere)
    monkeypatch.setattr(transaction.journal, "_remove_temporaries", lambda: None)
    text = transaction.take_back("no good")
    assert "NOT be restored" in text
    assert not elsewhere.exists()


def test_a_full_disk_names_the_path_and_its_file_system_and_changes_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    first(node)
    before, records = node.tree(), node.records()
    fsync = os.fsync
    calls = []

    def full(descriptor: int) -> None:
        # The journal fits; a file after it does not.
        calls.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        if "/root/sub" in calls[-1]:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    transaction = node.transaction()
    with pytest.raises(NodeFilesError) as caught:
        node.write(changed(node), transaction)
    monkeypatch.undo()
    transaction.take_back(str(caught.value))
    text = str(caught.value)
    assert str(node.root / "sub/dir/file") in text
    # The mount point of the file system that is full.
    assert re.search(r"df -h /\S*;", text)
    assert (node.tree(), node.records()) == (before, records)


def test_without_space_for_the_journal_nothing_is_changed(node: Node, monkeypatch: pytest.MonkeyPatch):
    first(node)
    before = node.tree()

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "create", full)
    with pytest.raises(NodeFilesError, match=r"demo\.json: .*: No space left"):
        node.write(changed(node), node.transaction())
    assert node.tree() == before


def test_the_old_content_is_restored_where_there_is_no_space_for_both(node: Node, monkeypatch: pytest.MonkeyPatch):
    """With its owner and mode, too, of which the journal of the change knows alone."""
    first(node)
    (node.root / "d.conf").chmod(0o640)
    owner = 12345 if os.geteuid() == 0 else os.geteuid()
    os.chown(node.root / "d.conf", owner, -1)
    before = node.tree()
    transaction = node.transaction()
    node.write(changed(node), transaction)
    assert node.tree()["d.conf"][:2] != before["d.conf"][:2]
    create = files.create

    def full(path: Path, *arguments: Any, **options: Any) -> None:
        if "d.conf" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        create(path, *arguments, **options)

    monkeypatch.setattr(files, "create", full)
    transaction.take_back("no good")
    assert node.tree() == before


def test_what_a_task_does_not_prune_stays_until_the_list_is_whole(node: Node):
    node.write(node.wanted(one="1\n"))
    file_writer.apply(
        "demo", node.wanted(two="2\n"), node.state, False, False, str(node.scratch), prune=False
    )  # fmt: skip
    assert set(node.tree()) == {"one", "two"}
    node.write(node.wanted(two="2\n"))
    assert set(node.tree()) == {"two"}


def test_what_is_below_a_kept_directory_stays_until_a_run_without_it(node: Node):
    node.write(node.wanted(one="1\n", **{"kept/a/b": "2\n", "kept2": "3\n"}))
    kept = {"keep_below": [str(node.root / "kept")]}
    file_writer.apply("demo", node.wanted(two="2\n"), node.state, False, False, str(node.scratch), **kept)
    assert set(node.tree()) == {"two", "kept", "kept/a", "kept/a/b"}
    node.write(node.wanted(two="2\n"))
    assert set(node.tree()) == {"two"}
    assert not (node.root / "kept").exists()


def test_another_error_than_a_full_disk_names_the_path_alone(tmp_path: Path):
    text = write_problem(tmp_path / "x", PermissionError(errno.EACCES, "Permission denied"))
    assert re.fullmatch(f"{tmp_path}/x: [a-z ]*: Permission denied", text)
    sentences.check(SENTENCES, "a path that cannot be written", [text.replace(str(tmp_path), "")])


def test_a_unit_that_the_change_stopped_and_masked_runs_again(node: Node):
    first(node)
    node.machine.units["l.service"] = UP
    gone = Unit("l.service", masked=True, state="stopped")
    transaction = Transaction(node.state, "demo", [node.unit, gone], node.systemd)
    node.write(changed(node), transaction)
    # What the change made of it.
    node.machine.units["l.service"] = replace(DOWN, load="masked", file="masked")
    node.machine.starts["l.service"] = UP
    node.machine.commands.clear()
    transaction.take_back("no good")
    assert "systemctl unmask l.service" in node.machine.commands
    assert node.machine.units["l.service"].running


def test_units_run_again_though_the_files_could_not_be_restored(node: Node, monkeypatch: pytest.MonkeyPatch):
    first(node)
    transaction = node.transaction()
    node.write(changed(node), transaction)
    node.machine.units["d.service"] = DOWN

    def locked() -> list[str]:
        raise NodeFilesError(["another run"])

    monkeypatch.setattr(transaction.journal, "restore", locked)
    text = transaction.take_back("no good")
    assert "no good" in text
    assert "another run" in text
    assert node.machine.units["d.service"].running
