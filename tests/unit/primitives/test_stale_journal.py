"""The journal of a killed run restores what that run wrote, and nothing that somebody changed since."""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives import journal as journal_module
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import file_writer
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import Current, DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import digest
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import pack
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.written_paths import (
    Written,
    is_changed_since,
    path_now,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.journal import UnitBefore
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import rpm
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.rpm import RpmError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.transaction import Transaction
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import UnitState
from ansible_collections.bedplate.cluster.plugins.modules import deploy
from tests.kit import sentences
from tests.unit.primitives.test_transaction import ME, Node, changed, first
from tests.unit.primitives.units.test_systemd import DOWN, UP

SENTENCES = Path(__file__).with_name("sentences.txt")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def killed(node: Node, wanted: list[DesiredFile] | None = None) -> None:
    """Write files under a journal; the process ends before it proves anything."""
    node.write(wanted or changed(node), node.transaction())
    assert node.journal.exists()


def test_a_file_that_a_person_repaired_stays_and_is_named(node: Node):
    first(node)
    before = node.tree()
    killed(node)
    (node.root / "d.conf").write_text("by hand\n")
    record = node.records()[f"{node.root}/d.conf"]
    text = node.transaction().take_back("no good")
    assert node.tree() == {**before, "d.conf": (*before["d.conf"][:2], b"by hand\n")}
    assert node.records()[f"{node.root}/d.conf"] == record
    assert text.startswith("no good")
    (line,) = [one for one in text.splitlines() if f"{node.root}/d.conf: " in one]
    # What the killed run wrote, what was there before it, and what is there now.
    wrote = changed(node)[0].content
    assert re.findall(r"[0-9a-f]{12}", line) == [digest(one)[:12] for one in (wrote, b"old\n", b"by hand\n")]
    said = re.sub(r"\d+:\d+,|[0-9a-f]{12}|\d{4}-\S+ \S+", "...", text.replace(str(node.root), "")).splitlines()
    sentences.check(SENTENCES, "a file that was repaired after a run was killed", filter(None, said))
    for other in ("mode", "link", "sub/dir/file"):
        assert f"{node.root}/{other}: " not in text
    # All paths are settled.
    assert not node.journal.exists()


def test_a_repaired_file_that_the_failed_run_replaced_is_back_as_the_person_left_it(node: Node):
    first(node)
    killed(node)
    (node.root / "d.conf").write_text("by hand\n")
    later = node.transaction()
    node.write([*node.wanted(**{"d.conf": "third\n"}), *changed(node)[1:]], later)
    text = later.take_back("no good")
    assert (node.root / "d.conf").read_text() == "by hand\n"
    assert (node.root / "link").readlink() == Path("here")
    assert f"{node.root}/d.conf: " in text


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("mode", lambda path: path.chmod(0o640)),
        ("mode", lambda path: path.unlink()),
        ("link", lambda path: (path.unlink(), path.symlink_to("third"))),
        ("link", lambda path: (path.unlink(), path.write_text("a file\n"))),
        ("kept/gone", lambda path: (path.parent.mkdir(exist_ok=True), path.write_text("reinstalled\n"))),
        ("sub/dir/file", lambda path: path.write_text("newer\n")),
    ],
)
def test_every_kind_of_path_that_was_changed_since_stays(node: Node, name: str, by_hand: Any):
    first(node)
    killed(node)
    by_hand(node.root / name)
    there = node.tree().get(name)
    text = node.transaction().take_back("no good")
    assert node.tree().get(name) == there
    assert f"{node.root}/{name}: " in text
    assert (node.root / "d.conf").read_text() == "old\n"


def test_a_path_that_is_as_before_the_killed_run_needs_nothing(node: Node):
    first(node)
    before = node.tree()
    killed(node)
    (node.root / "d.conf").write_text("old\n")
    inode = (node.root / "d.conf").stat().st_ino
    text = node.transaction().take_back("no good")
    assert node.tree() == before
    assert (node.root / "d.conf").stat().st_ino == inode
    assert "d.conf" not in text


def test_a_path_that_cannot_be_read_does_not_keep_others_from_being_restored(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    first(node)
    killed(node)

    def unreadable(path: str, before: Current) -> Current:
        if path.endswith("/mode"):
            raise OSError(errno.EIO, "Input/output error")
        return path_now(path, before)

    monkeypatch.setattr(journal_module, "path_now", unreadable)
    text = node.transaction().take_back("no good")
    assert (node.root / "d.conf").read_text() == "old\n"
    assert re.search(f"{node.root}/mode: .*Input/output error", text)
    said = text.replace(str(node.root.parent), "").splitlines()
    sentences.check(SENTENCES, "what is not restored in full", filter(None, said))
    assert "NOT be restored" in text
    assert node.journal.exists()


def test_what_two_killed_runs_wrote_is_restored_to_the_state_before_the_first(node: Node):
    first(node)
    before, records = node.tree(), node.records()
    killed(node)
    later = node.transaction()
    node.write([*node.wanted(**{"d.conf": "third\n"}), *changed(node)[1:]], later)
    # Killed again, one file earlier: the one that the first killed run wrote is still there.
    (node.root / "d.conf").write_text("new\n")
    text = node.transaction().take_back("no good")
    assert (node.tree(), node.records()) == (before, records)
    assert "d.conf" not in text


def test_a_run_killed_in_a_new_directory_is_restored(node: Node):
    first(node)
    before = node.tree()
    killed(node, [*changed(node), DesiredFile(f"{node.root}/fresh", state="directory", mode="0750", **ME)])
    (node.root / "fresh").chmod(0o700)
    text = node.transaction().take_back("no good")
    assert node.tree() == before
    assert "changed" not in text


def test_a_run_killed_between_owner_and_mode_is_recognised():
    before = Current("file", b"m\n", "", 0, 0, 0o644)
    written = Written("file", digest(b"m\n"), "", 5, 5, 0o600)
    assert not is_changed_since(replace(before, uid=5, gid=5), before, [written])
    assert is_changed_since(replace(before, uid=6, gid=5), before, [written])
    assert is_changed_since(replace(before, uid=5, gid=5, mode=0o640), before, [written])


def test_a_directory_behind_a_link_is_restored(node: Node):
    (node.root / "real").mkdir(mode=0o755)
    (node.root / "alias").symlink_to("real")
    before = node.tree()
    killed(node, [DesiredFile(f"{node.root}/alias", state="directory", mode="0700", **ME)])
    assert node.tree() != before
    text = node.transaction().take_back("no good")
    assert node.tree() == before
    assert "changed" not in text


def test_what_changes_a_file_within_the_failed_run_is_part_of_it(node: Node):
    """A daemon may rewrite its own configuration when it starts on it."""
    first(node)
    before = node.tree()
    transaction = node.transaction()
    node.write(changed(node), transaction)
    (node.root / "d.conf").write_text("new\n# migrated\n")
    transaction.take_back("no good")
    assert node.tree() == before


@pytest.mark.parametrize("take_back", [False, True])
def test_half_written_files_of_a_killed_run_go_with_its_journal(node: Node, take_back: bool):
    first(node)
    killed(node)
    half = node.root / ".d.conf.0123abcd.tmp"
    half.write_text("half")
    run(node, changed(node), take_back=take_back)
    assert not half.exists()


def test_a_change_settles_its_own_paths_whatever_else_it_proves(node: Node):
    """Drop-ins of its units are in no list of files."""
    first(node)
    transaction = node.transaction()
    node.write(changed(node), transaction)
    transaction.commit([])
    assert not node.journal.exists()


def test_the_content_of_a_secret_is_not_shown_as_a_checksum(node: Node):
    first(node)
    path = f"{node.root}/key"
    killed(node, [*changed(node), DesiredFile(path, content=b"1234", sensitive=True, mode="0600", **ME)])
    Path(path).write_text("4321")
    text = node.transaction().take_back("no good")
    assert "sha256 not shown" in text
    assert digest(b"4321")[:12] not in text
    assert digest(b"1234")[:12] not in text


def test_another_manifest_that_took_a_directory_into_use_since_keeps_it(node: Node):
    first(node)
    killed(node)
    node.write([DesiredFile(f"{node.root}/sub/dir/theirs", content=b"t\n", **ME)], manifest="other")
    node.transaction().take_back("no good")
    assert node.records()[f"{node.root}/sub/dir"]["manifests"] == ["other"]
    assert not (node.root / "sub/dir/file").exists()


def test_another_manifest_that_left_a_path_since_is_not_put_back_on_its_record(node: Node):
    shared = node.wanted(shared="1\n")
    node.write(shared, manifest="other")
    node.write(shared)
    killed(node, node.wanted(shared="2\n"))
    node.write([], manifest="other")
    node.transaction().take_back("no good")
    assert (node.root / "shared").read_text() == "1\n"
    assert node.records()[f"{node.root}/shared"]["manifests"] == ["demo"]


def test_a_directory_that_stays_for_a_changed_file_stays_on_record(node: Node):
    first(node)
    killed(node)
    (node.root / "sub/dir/file").write_text("newer\n")
    node.transaction().take_back("no good")
    assert {f"{node.root}/{name}" for name in ("sub", "sub/dir", "sub/dir/file")} <= set(node.records())


def test_a_daemon_that_a_person_started_on_repaired_files_is_not_stopped(node: Node):
    node.machine.units["d.service"] = DOWN
    first(node)
    killed(node)
    (node.root / "d.conf").write_text("by hand\n")
    node.machine.units["d.service"] = replace(UP, started=1.0)
    later = node.transaction()
    node.write([*node.wanted(**{"d.conf": "third\n"}), *changed(node)[1:]], later)
    text = later.take_back("no good")
    assert not [one for one in node.machine.writes if one.startswith(("stop", "disable"))]
    assert "d.service " in text


def test_a_daemon_that_the_killed_run_started_is_stopped(node: Node):
    node.machine.units["d.service"] = DOWN
    first(node)
    killed(node)
    node.machine.units["d.service"] = replace(UP, started=1.0)
    node.transaction().take_back("no good")
    assert node.machine.writes == ["stop d.service", "reset-failed d.service", "disable d.service"]


def test_a_unit_that_the_task_does_not_enable_is_not_disabled(node: Node):
    node.machine.units["d.service"] = DOWN
    unit = replace(node.unit, enabled=None)
    first(node)
    node.write(changed(node), Transaction(node.state, "demo", [unit], node.systemd))
    node.machine.units["d.service"] = replace(DOWN, file="enabled")
    Transaction(node.state, "demo", [unit], node.systemd).take_back("no good")
    assert node.machine.writes == ["stop d.service", "reset-failed d.service"]


def test_the_end_of_a_journal_is_on_the_disk(node: Node, monkeypatch: pytest.MonkeyPatch):
    """Without it a power failure could put the journal of a proved change back."""
    first(node)
    transaction = node.transaction()
    node.write(changed(node), transaction)
    synced = []
    monkeypatch.setattr(journal_module, "sync_directory", lambda path: synced.append((path, node.journal.exists())))
    transaction.commit()
    assert synced == [(node.journal.parent, False)]


class ModuleFailedError(Exception):
    """The result of a module that failed."""


class Module:
    """An AnsibleModule as far as deploy uses one."""

    check_mode = False
    _diff = False

    def __init__(self, node: Node, **params: Any) -> None:
        self.tmpdir = str(node.scratch)
        self.warnings: list[str] = []
        self.params = {
            "manager": "apt", "manifest": "demo", "state": "present", "packages": [], "hold": [], "follow": [], "replaces": [],
            "fixed": None, "obstacle": None, "conflicts": None, "available": None, "accounts": [],
            "units": [], "touched": [], "prune": True, "keep_below": [], "take_back": False, "payload": pack([]),
            "sources_payload": None, "unchanged": {}, "predicted": {}, "state_directory": str(node.state),
            "only": ["packages", "files", "services"], **params,
        }  # fmt: skip

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def fail_json(self, **result: Any) -> None:
        raise ModuleFailedError(result)


def run(node: Node, wanted: list[DesiredFile], **params: Any) -> dict[str, Any]:
    return deploy._run(Module(node, payload=pack(wanted), **params))  # type: ignore[arg-type]


def test_a_run_without_take_back_that_succeeds_ends_the_journal(node: Node):
    first(node)
    killed(node)
    # The very files that the killed run wrote: nothing tells afterwards who they are of.
    run(node, changed(node))
    assert not node.journal.exists()
    later = node.transaction()
    node.write([*node.wanted(**{"d.conf": "third\n"}), *changed(node)[1:]], later)
    later.take_back("no good")
    assert (node.root / "d.conf").read_text() == "new\n"


@pytest.mark.parametrize("take_back", [False, True])
def test_a_run_that_leaves_files_out_settles_its_own_alone(node: Node, take_back: bool):
    """Prune: false is for a task before the one with the whole list, which proves the rest."""
    first(node)
    killed(node)
    run(node, node.wanted(**{"sub/dir/file": "third\n"}), prune=False, take_back=take_back)
    assert node.journal.exists()
    text = node.transaction().take_back("no good")
    assert (node.root / "sub/dir/file").read_text() == "third\n"
    assert (node.root / "d.conf").read_text() == "old\n"
    assert "sub/dir/file" not in text
    assert f"{node.root}/sub/dir" in node.records()


def test_a_run_that_leaves_files_out_ends_a_journal_of_which_it_proves_all(node: Node):
    killed(node, node.wanted(one="1\n"))
    run(node, node.wanted(one="1\n"), prune=False)
    assert not node.journal.exists()


def test_a_manifest_that_was_taken_away_has_no_journal(node: Node):
    first(node)
    killed(node)
    run(node, [], state="absent")
    assert not node.journal.exists()


@pytest.mark.parametrize("prune", [True, False])
def test_an_unreadable_journal_does_not_fail_a_run_that_has_no_use_for_it(node: Node, prune: bool):
    node.journal.parent.mkdir(parents=True)
    node.journal.write_text("{")
    assert run(node, node.wanted(one="1\n"), prune=prune)["changed"]
    # Only the run with the whole list knows that nothing in it is of use.
    assert node.journal.exists() is not prune


def test_a_check_run_leaves_the_journal(node: Node, monkeypatch: pytest.MonkeyPatch):
    first(node)
    killed(node)
    journal = node.journal.read_text()
    monkeypatch.setattr(Module, "check_mode", True)
    for params in ({}, {"take_back": True}, {"prune": False}, {"state": "absent"}):
        run(node, [] if params.get("state") else changed(node), **params)
        assert node.journal.read_text() == journal


def test_a_failed_task_has_what_was_left_alone_in_its_result(node: Node, monkeypatch: pytest.MonkeyPatch):
    first(node)
    killed(node)
    (node.root / "link").unlink()
    (node.root / "link").symlink_to("third")

    def fails(*_arguments: object, **_more: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(file_writer._FileWriter, "write", fails)
    with pytest.raises(ModuleFailedError) as caught:
        run(node, node.wanted(**{"d.conf": "third\n"}), take_back=True)
    (result,) = caught.value.args
    assert list(result["left_alone"]) == [f"{node.root}/link"]
    assert result["left_alone"][f"{node.root}/link"] in result["msg"]


@pytest.mark.parametrize(("found", "runs"), [(UP, True), (DOWN, False)], ids=["started since", "still down"])
def test_a_unit_is_read_before_the_run_changes_it(node: Node, found: UnitState, runs: bool):
    """A run that only continues what a killed one wrote keeps no plan, and its units are others when it fails."""
    node.machine.units["d.service"] = DOWN
    first(node)
    killed(node)
    (node.root / "d.conf").write_text("by hand\n")
    node.machine.units["d.service"] = replace(found, started=1.0)
    later = node.transaction()
    node.machine.units["d.service"] = replace(UP, started=1.0) if not runs else replace(DOWN, active="failed")
    later.take_back("no good")
    assert node.machine.units["d.service"].running == runs


def test_units_are_read_at_the_start_only_where_a_run_was_killed(node: Node):
    first(node)
    node.transaction()
    assert node.machine.commands == []


def test_files_are_taken_back_when_the_locks_of_dnf_fail(node: Node, monkeypatch: pytest.MonkeyPatch):
    def fails(*_arguments: object) -> None:
        raise RpmError("rpm -q: no records")

    first(node)
    before, records = node.tree(), node.records()
    monkeypatch.setattr(rpm, "followers_locks", fails)
    with pytest.raises(ModuleFailedError) as caught:
        run(node, changed(node), take_back=True, manager="dnf")
    assert (node.tree(), node.records()) == (before, records)
    assert caught.value.args[0]["msg"].startswith("rpm -q: no records\n\nRestored")
    assert not node.journal.exists()


@pytest.mark.parametrize("version", [1, 3])
def test_a_journal_of_another_release_is_not_restored(node: Node, version: int):
    killed(node)
    node.journal.write_text(node.journal.read_text().replace('"version": 2', f'"version": {version}'))
    with pytest.raises(journal_module.UnreadableJournalError, match=f"version {version}"):
        node.transaction()


def test_a_unit_is_restored_to_the_state_before_the_first_killed_run(node: Node):
    stopped, running = UnitBefore(False, "disabled"), UnitBefore(True, "enabled")
    for before in (stopped, running):
        journal_module.Journal(node.state, "demo").keep({}, {"d.service": before})
    assert journal_module.Journal(node.state, "demo").units == {"d.service": stopped}
