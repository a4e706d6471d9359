"""What bedplate.cluster.files does on a node, on paths below a temporary directory."""

from __future__ import annotations

import json
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import file_plan, file_writer
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import manifest as node_manifest
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile, plan
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import pack, unpack
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


class Node:
    """A machine below a temporary directory."""

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.root.mkdir()
        self.state = base / "state"
        self.scratch = base / "scratch"
        self.scratch.mkdir()

    def file(self, name: str, content: str | bytes = "x\n", **keys) -> DesiredFile:
        data = content.encode() if isinstance(content, str) else content
        return DesiredFile(str(self.root / name), content=data, **{**ME, **keys})

    def directory(self, name: str, mode: str = "0755") -> DesiredFile:
        return DesiredFile(str(self.root / name), state="directory", mode=mode, **ME)

    def link(self, name: str, target: str) -> DesiredFile:
        return DesiredFile(str(self.root / name), state="link", target=target)

    def apply(self, *wanted: DesiredFile, manifest: str = "demo", check: bool = False) -> dict:
        return file_writer.apply(manifest, list(wanted), self.state, check, True, str(self.scratch))

    def records(self) -> dict:
        return json.loads((self.state / "files.json").read_text())["files"]

    def names(self, paths) -> list[str]:
        return [str(Path(path).relative_to(self.root)) for path in paths]

    def said(self, *messages: object) -> list[str]:
        """Return messages without the directory of a test."""
        return [str(one).replace(str(self.root), "").replace(str(self.state), "/state") for one in messages]

    def snapshot(self) -> dict:
        """Everything that tells a write: inode, change time, content."""
        return {
            str(path): (os.lstat(path).st_ino, os.lstat(path).st_ctime_ns, os.lstat(path).st_mtime_ns)
            for base in (self.root, self.state)
            for path in [base, *base.rglob("*")]
            if os.path.lexists(path)
        }


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_writes_files_directories_and_links_and_then_nothing(node: Node):
    wanted = [
        node.file("etc/deep/a.conf", "a\n", mode="0640"),
        node.directory("spool", "0711"),
        node.link("etc/link", "deep/a.conf"),
    ]
    first = node.apply(*wanted)
    assert node.names(first["changed_files"]) == ["etc", "etc/deep", "etc/deep/a.conf", "spool", "etc/link"]
    assert (node.root / "etc/link").read_text() == "a\n"
    assert mode_of(node.root / "etc/deep/a.conf") == 0o640
    assert mode_of(node.root / "spool") == 0o711
    assert mode_of(node.state / "files.json") == 0o600
    before = node.snapshot()
    second = node.apply(*wanted)
    assert second["changed"] is False
    assert second["changed_files"] == second["diff"] == second["notify"] == []
    assert node.snapshot() == before


def test_check_mode_predicts_what_a_run_does_and_writes_nothing(node: Node):
    node.apply(node.file("old"), node.file("dir/inside"), node.file("mode"))
    wanted = [node.file("new/file"), node.file("mode", mode="0600"), node.directory("d"), node.link("l", "x")]
    before = node.snapshot()
    predicted = node.apply(*wanted, check=True)
    assert node.snapshot() == before
    done = node.apply(*wanted)
    assert predicted == done
    assert node.names(done["removed"]) == ["dir/inside", "old", "dir"]


def test_check_mode_writes_no_manifest_on_a_fresh_node(node: Node):
    assert node.apply(node.file("a"), check=True)["changed"] is True
    assert not node.state.exists()


def test_only_the_changed_file_notifies(node: Node):
    one, two = node.file("one", notify=["Restart one"]), node.file("two", notify=["Restart two"])
    assert node.apply(one, two)["notify"] == ["Restart one", "Restart two"]
    assert node.apply(one, replace(two, content=b"new"))["notify"] == ["Restart two"]
    assert node.apply(replace(one, mode="0600"), replace(two, content=b"new"))["notify"] == ["Restart one"]


def test_a_removed_file_notifies_the_handler_it_had(node: Node):
    node.apply(node.file("one", notify=["Restart one"]), node.file("two"))
    assert node.apply(node.file("two"))["notify"] == ["Restart one"]


def test_replacing_keeps_the_old_file_whole_for_who_has_it_open(node: Node):
    node.apply(node.file("a", "old\n"))
    with (node.root / "a").open() as reader:
        node.apply(node.file("a", "new\n"))
        assert reader.read() == "old\n"
    assert (node.root / "a").read_text() == "new\n"
    assert node.names(node.root.iterdir()) == ["a"]


def test_a_secret_is_never_readable_by_others(node: Node, monkeypatch: pytest.MonkeyPatch):
    seen = []
    real = os.fchown

    def spy(descriptor, *owner):
        seen.append(os.fstat(descriptor).st_mode & 0o077)
        real(descriptor, *owner)

    monkeypatch.setattr(os, "fchown", spy)
    monkeypatch.setattr(os, "geteuid", lambda: -1)  # so that it sets the owner even for us
    old = os.umask(0)
    try:
        file_writer._write_new(
            node.root / "key",
            plan("demo", [node.file("key", mode="0400")], {}, check=False).changes[0],
        )
    finally:
        os.umask(old)
    assert seen == [0]
    assert mode_of(node.root / "key") == 0o400


# Removal


def test_removes_what_is_no_longer_wanted_and_nothing_else(node: Node):
    (node.root / "foreign").write_text("not ours")
    node.apply(node.file("d/a"), node.file("d/b"), node.link("l", "a"), node.directory("own"))
    (node.root / "own/theirs").write_text("daemon data")
    result = node.apply(node.file("d/b"))
    assert node.names(result["removed"]) == ["d/a", "l"]
    assert sorted(node.names(node.root.iterdir())) == ["d", "foreign", "own"]
    assert node.names(result["kept"]) == ["own"]
    sentences.check(SENTENCES, "a directory stays that is not empty", result["kept"].values())
    result = node.apply()
    assert node.names(result["removed"]) == ["d/b", "d"]
    assert (node.root / "own/theirs").exists()


def test_a_file_changed_by_hand_is_kept_with_a_warning(node: Node):
    node.apply(node.file("a"), node.file("b"))
    (node.root / "a").write_text("mine")
    result = node.apply(node.file("b"))
    assert result["removed"] == []
    assert node.names(result["kept"]) == ["a"]
    (problem,) = result["problems"]
    assert problem.startswith(f"{node.root}/a ")
    sentences.check(SENTENCES, "a file stays that was changed by hand", node.said(problem))
    assert (node.root / "a").read_text() == "mine"
    assert node.apply(node.file("b"))["changed"] is False


def test_a_file_replaced_by_a_directory_is_kept(node: Node):
    node.apply(node.file("a"))
    (node.root / "a").unlink()
    (node.root / "a").mkdir()
    kept = node.apply()["kept"]
    assert node.names(kept) == ["a"]
    assert {"file", "directory"} <= set(kept[str(node.root / "a")].replace(",", "").split())
    sentences.check(SENTENCES, "a directory is where bedplate made a file", kept.values())


def test_a_file_that_was_there_already_as_wanted_is_not_removed(node: Node):
    (node.root / "a").write_text("x\n")
    (node.root / "a").chmod(0o644)
    result = node.apply(node.file("a"))
    assert result["changed_files"] == []
    kept = node.apply()["kept"]
    assert node.names(kept) == ["a"]
    sentences.check(SENTENCES, "a file stays that bedplate did not make", kept.values())
    assert (node.root / "a").exists()


def test_a_file_of_two_manifests_goes_with_the_last(node: Node):
    node.apply(node.file("sub/a"), manifest="one")
    node.apply(node.file("sub/a"), manifest="two")
    assert node.apply(manifest="one")["removed"] == []
    assert (node.root / "sub/a").exists()
    assert node.names(node.apply(manifest="two")["removed"]) == ["sub/a", "sub"]


def test_a_directory_stays_while_another_manifest_has_something_in_it(node: Node):
    node.apply(node.file("sub/a"), manifest="one")
    node.apply(node.file("sub/b"), manifest="two")
    assert node.names(node.apply(manifest="one")["removed"]) == ["sub/a"]
    assert node.names(node.apply(manifest="two")["removed"]) == ["sub/b", "sub"]


def test_a_file_gone_by_hand_is_only_forgotten(node: Node):
    node.apply(node.file("a"), node.file("b"))
    (node.root / "a").unlink()
    result = node.apply(node.file("b"))
    assert result["removed"] == []
    assert result["kept"] == {}
    assert list(node.records()) == [str(node.root / "b")]


# Validation


def test_one_refused_file_and_nothing_is_written(node: Node):
    node.apply(node.file("a", "old\n"))
    before = node.snapshot()
    wanted = [node.file("a", "new\n"), node.file("b/c"), node.file("d", "bad", validate="grep -n good %s")]
    with pytest.raises(NodeFilesError) as error:
        node.apply(*wanted)
    (problem,) = error.value.problems
    assert problem.startswith(f"{node.root}/d: {wanted[-1].validate!r} ")
    sentences.check(SENTENCES, "a command refuses a file", node.said(problem))
    assert node.snapshot() == before
    assert list(node.scratch.iterdir()) == []


def test_the_error_shows_what_the_command_said_but_not_of_a_secret(node: Node):
    wanted = [node.file("a", "PASSWORD=1", validate="sh -c 'cat %s; exit 3'")]
    with pytest.raises(NodeFilesError, match=r"ended with 3\): PASSWORD=1"):
        node.apply(*wanted)
    with pytest.raises(NodeFilesError) as error:
        node.apply(replace(wanted[0], sensitive=True))
    assert "PASSWORD" not in str(error.value)


def test_an_accepted_file_is_written_and_an_unchanged_one_not_validated(node: Node):
    log = node.scratch.parent / "log"
    entry = node.file("a", "good\n", validate=f"sh -c 'grep -q good %s && echo once >> {log}'")
    assert node.apply(entry)["changed"] is True
    assert node.apply(entry)["changed"] is False
    assert log.read_text() == "once\n"


def test_a_missing_command_is_a_note_in_check_mode_and_an_error_in_a_run(node: Node):
    entry = node.file("a", validate="no-such-command-here %s")
    (unchecked,) = node.apply(entry, check=True)["unchecked"]
    with pytest.raises(NodeFilesError) as caught:
        node.apply(entry)
    (problem,) = caught.value.problems
    assert all(one.startswith(f"{entry.path}: ") and "no-such-command-here" in one for one in (unchecked, problem))
    sentences.check(SENTENCES, "a command that validates is not installed", node.said(unchecked, problem))


def test_a_refusal_in_check_mode_counts_only_where_owner_and_directory_exist(node: Node):
    refuse = {"validate": "false %s"}
    with pytest.raises(NodeFilesError):
        node.apply(node.file("a", **refuse), check=True)
    (unchecked,) = node.apply(node.file("d/a", **refuse), check=True)["unchecked"]
    assert unchecked.startswith(f"{node.root}/d/a: 'false %s' ")
    sentences.check(SENTENCES, "a command refuses a file without its directory", node.said(unchecked))


# What stands in the way


def test_missing_owner_is_a_note_in_check_mode_and_an_error_in_a_run(node: Node):
    entry = node.file("a", owner="nosuchuser")
    predicted = node.apply(entry, check=True)
    assert predicted["changed"] is True
    (unchecked,) = predicted["unchecked"]
    with pytest.raises(NodeFilesError) as caught:
        node.apply(entry)
    (problem,) = caught.value.problems
    assert all("user" in one and "nosuchuser" in one and entry.path in one for one in (unchecked, problem))
    sentences.check(SENTENCES, "an owner who does not exist", node.said(unchecked, problem))
    assert node.snapshot().keys() <= {str(node.root), str(node.state)}


def test_all_obstacles_come_in_one_error(node: Node):
    (node.root / "dir").mkdir()
    (node.root / "file").write_text("")
    wanted = [node.file("dir"), node.directory("file"), node.file("file/below"), node.file("a", group="nosuchgroup")]
    with pytest.raises(NodeFilesError) as error:
        node.apply(*wanted)
    found = error.value.problems
    values = [
        ["dir:", "directory", "file"],
        ["file:", "file", "directory"],
        ["file/below:", "/file "],
        ["a:", "'nosuchgroup'"],
    ]
    assert len(found) == len(values)
    for problem, parts in zip(found, values, strict=True):
        assert problem.startswith(f"{node.root}/{parts[0]} ")
        assert all(part in problem for part in parts)
    sentences.check(SENTENCES, "all obstacles of files", node.said(*found))


def test_a_bind_mounted_file_is_named(node: Node, monkeypatch: pytest.MonkeyPatch):
    real = Path.replace

    def busy(self, target):
        if str(target).endswith("/hosts"):
            raise OSError(16, "Device or resource busy")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", busy)
    with pytest.raises(NodeFilesError, match=f"^{node.root}/hosts: .*findmnt {node.root}/hosts") as caught:
        node.apply(node.file("hosts"))
    sentences.check(SENTENCES, "a file is a mount point", node.said(caught.value))
    assert list(node.root.iterdir()) == []
    assert node.records() == {}


def test_a_run_that_breaks_remembers_just_what_it_wrote(node: Node, monkeypatch: pytest.MonkeyPatch):
    node.apply(node.file("b", "old\n"))
    real = Path.replace

    def fail(self, target):
        if str(target).endswith("/b"):
            raise OSError(28, "No space left on device")
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(NodeFilesError, match=f"^{node.root}/b: .*: No space left on device"):
            node.apply(node.file("a"), node.file("b", "new\n"))
    assert sorted(node.names(node.root.iterdir())) == ["a", "b"]
    assert sorted(node.names(node.apply()["removed"])) == ["a", "b"]


def test_an_unreadable_manifest_stops_everything(node: Node):
    node.state.mkdir()
    (node.state / "files.json").write_text("{broken")
    with pytest.raises(NodeFilesError, match=rf"^{node.state}/files\.json.* \(mv {node.state}/files\.json ") as caught:
        node.apply(node.file("a"))
    said = str(caught.value).replace(str(caught.value.__cause__), "...")
    sentences.check(SENTENCES, "a list of files that cannot be read", node.said(said))
    assert not (node.root / "a").exists()


def test_two_runs_at_once_lose_no_record(node: Node):
    names = [f"f{number}" for number in range(8)]
    threads = [
        threading.Thread(target=node.apply, args=(node.file(name),), kwargs={"manifest": name}) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(node.names(node.records())) == names


def test_a_lock_that_stays_is_an_error(node: Node, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(node_manifest, "_LOCK_SECONDS", 0.0)
    with (
        node_manifest.locked(node.state, create=True),
        pytest.raises(NodeFilesError, match=f"fuser -v {node.state}") as caught,
        node_manifest.locked(node.state, create=False),
    ):
        pass
    sentences.check(SENTENCES, "another run keeps the lock", node.said(caught.value))


# Diffs


def test_diffs_show_content_owner_and_mode(node: Node):
    node.apply(node.file("a", "old\n"))
    content, attributes = node.apply(node.file("a", "new\n", mode="0600"))["diff"]
    assert (content["before"], content["after"]) == ("old\n", "new\n")
    assert attributes["before"].endswith("0644\n")
    assert attributes["after"].endswith("0600\n")


@pytest.mark.parametrize("last", [{"content": "SECRET2"}, {"content": "SECRET2", "sensitive": False}, None])
def test_no_diff_shows_a_secret(node: Node, last: dict | None):
    results = [node.apply(node.file("a", "SECRET1", sensitive=True))]
    wanted = [] if last is None else [node.file("a", **{"sensitive": True, **last})]
    results.append(node.apply(*wanted))
    assert all(result["diff"] for result in results)
    assert "SECRET" not in json.dumps(results)
    assert results[1]["diff"][0]["before"] != results[1]["diff"][0]["after"]


def test_diffs_of_large_and_binary_files_are_short(node: Node):
    result = node.apply(node.file("large", "x" * 200_000), node.file("binary", b"\xff\x00\x01"))
    assert len(json.dumps(result)) < 2000


@given(st.lists(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_a_payload_arrives_as_it_was_sent(contents: list[bytes]):
    files = [DesiredFile(f"/f{number}", content=data, notify=["a"]) for number, data in enumerate(contents)]
    assert unpack(pack(files)) == files


@pytest.mark.parametrize("check", [False, True])
def test_what_must_not_be_replaced_stays_and_so_does_all_else(node: Node, check: bool):
    node.apply(node.file("key", "old"), node.file("other", "old"))
    before = node.snapshot()
    with pytest.raises(NodeFilesError) as caught:
        node.apply(node.file("key", "new", refusal="no.", replaces=["0" * 64]), node.file("other", "new"), check=check)
    assert caught.value.problems == [f"{node.root}/key: no."]
    assert node.snapshot() == before


def test_what_must_not_be_replaced_may_be_by_its_heir_or_where_bedplate_did_not_write_it(node: Node):
    (node.root / "package").write_text("of a package")
    node.apply(node.file("key", "old"), node.file("same", "same"), node.file("edited", "right"))
    (node.root / "edited").write_text("wrong")
    entries = [
        node.file("key", "new", refusal="no.", replaces=[node_manifest.digest(b"old")]),
        *(node.file(*entry, refusal="no.") for entry in (("same", "same"), ("edited", "right"), ("package", "new"))),
    ]
    result = node.apply(*entries, node.file("absent", "new", refusal="no."))
    assert node.names(result["changed_files"]) == ["key", "edited", "package", "absent"]
    assert unpack(pack(entries)) == entries


KEY, OLD = b"the key of bedplate", b"the key of a cluster that somebody else set up"


@pytest.fixture
def slurmd_runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stand in for systemctl on a machine where slurmd runs; return what it was asked."""
    asked: list[list[str]] = []

    def run(argv: list[str], _seconds: float) -> Outcome:
        asked.append(list(argv))
        return Outcome(3, "".join("active\n" if unit == "slurmd.service" else "inactive\n" for unit in argv[2:]), "")

    monkeypatch.setattr(file_plan, "run", run)
    return asked


@pytest.mark.parametrize(
    ("old", "keys", "is_refused"),
    [
        (OLD, {"used_by": ["slurmctld.service", "slurmd.service"]}, True),
        (OLD, {"used_by": ["slurmctld.service"]}, False),
        (OLD, {"used_by": ["slurmd.service"], "replaces": [node_manifest.digest(OLD)]}, False),
        (OLD, {}, False),
        (KEY, {"used_by": ["slurmd.service"]}, False),
        (None, {"used_by": ["slurmd.service"]}, False),
    ],
)
def test_a_key_that_bedplate_did_not_write_stays_while_a_unit_runs_with_it(
    tmp_path: Path, slurmd_runs: list[list[str]], old: bytes | None, keys: dict[str, list[str]], is_refused: bool
) -> None:
    node = Node(tmp_path)
    if old is not None:
        (node.root / "key").write_bytes(old)
    decided = plan("demo", [node.file("key", KEY, **keys)], {}, check=False)
    assert [problem.split(": ")[0] for problem in decided.problems] == ([str(node.root / "key")] if is_refused else [])
    assert not is_refused or "slurmd.service runs here" in decided.problems[0]
    # Without a difference nobody asks systemd.
    assert slurmd_runs == [] if old in (KEY, None) else True


def test_a_key_that_bedplate_wrote_is_guarded_by_its_record(tmp_path: Path, slurmd_runs: list[list[str]]) -> None:
    node = Node(tmp_path)
    (node.root / "key").write_bytes(OLD)
    wanted = node.file("key", KEY, used_by=["slurmd.service"])
    records = plan("demo", [replace(wanted, content=OLD)], {}, check=False).records
    assert plan("demo", [wanted], records, check=False).problems == []
    assert slurmd_runs == []
