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

from ansible_collections.bedplate.cluster.plugins.module_utils import node_manifest, node_writer
from ansible_collections.bedplate.cluster.plugins.module_utils.node_files import Wanted, plan
from ansible_collections.bedplate.cluster.plugins.module_utils.node_manifest import NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.node_payload import pack, unpack

ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


class Node:
    """A machine below a temporary directory."""

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.root.mkdir()
        self.state = base / "state"
        self.scratch = base / "scratch"
        self.scratch.mkdir()

    def file(self, name: str, content: str | bytes = "x\n", **keys) -> Wanted:
        data = content.encode() if isinstance(content, str) else content
        return Wanted(str(self.root / name), content=data, **{**ME, **keys})

    def directory(self, name: str, mode: str = "0755") -> Wanted:
        return Wanted(str(self.root / name), state="directory", mode=mode, **ME)

    def link(self, name: str, target: str) -> Wanted:
        return Wanted(str(self.root / name), state="link", target=target)

    def bring(self, *wanted: Wanted, manifest: str = "demo", check: bool = False) -> dict:
        return node_writer.bring(manifest, list(wanted), self.state, check, True, str(self.scratch))

    def records(self) -> dict:
        return json.loads((self.state / "files.json").read_text())["files"]

    def names(self, paths) -> list[str]:
        return [str(Path(path).relative_to(self.root)) for path in paths]

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
    first = node.bring(*wanted)
    assert node.names(first["changed_files"]) == ["etc", "etc/deep", "etc/deep/a.conf", "spool", "etc/link"]
    assert (node.root / "etc/link").read_text() == "a\n"
    assert mode_of(node.root / "etc/deep/a.conf") == 0o640
    assert mode_of(node.root / "spool") == 0o711
    assert mode_of(node.state / "files.json") == 0o600
    before = node.snapshot()
    second = node.bring(*wanted)
    assert second["changed"] is False
    assert second["changed_files"] == second["diff"] == second["notify"] == []
    assert node.snapshot() == before


def test_check_mode_predicts_what_a_run_does_and_writes_nothing(node: Node):
    node.bring(node.file("old"), node.file("dir/inside"), node.file("mode"))
    wanted = [node.file("new/file"), node.file("mode", mode="0600"), node.directory("d"), node.link("l", "x")]
    before = node.snapshot()
    predicted = node.bring(*wanted, check=True)
    assert node.snapshot() == before
    done = node.bring(*wanted)
    assert predicted == done
    assert node.names(done["removed"]) == ["dir/inside", "old", "dir"]


def test_check_mode_writes_no_manifest_on_a_fresh_node(node: Node):
    assert node.bring(node.file("a"), check=True)["changed"] is True
    assert not node.state.exists()


def test_only_the_changed_file_notifies(node: Node):
    one, two = node.file("one", notify=["Restart one"]), node.file("two", notify=["Restart two"])
    assert node.bring(one, two)["notify"] == ["Restart one", "Restart two"]
    assert node.bring(one, replace(two, content=b"new"))["notify"] == ["Restart two"]
    assert node.bring(replace(one, mode="0600"), replace(two, content=b"new"))["notify"] == ["Restart one"]


def test_a_removed_file_notifies_the_handler_it_had(node: Node):
    node.bring(node.file("one", notify=["Restart one"]), node.file("two"))
    assert node.bring(node.file("two"))["notify"] == ["Restart one"]


def test_replacing_keeps_the_old_file_whole_for_who_has_it_open(node: Node):
    node.bring(node.file("a", "old\n"))
    with (node.root / "a").open() as reader:
        node.bring(node.file("a", "new\n"))
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
        node_writer._write_new(
            str(node.root / "key"),
            plan("demo", [node.file("key", mode="0400")], {}, check=False).changes[0],
            "",
        )
    finally:
        os.umask(old)
    assert seen == [0]
    assert mode_of(node.root / "key") == 0o400


# Removal


def test_removes_what_is_no_longer_wanted_and_nothing_else(node: Node):
    (node.root / "foreign").write_text("not ours")
    node.bring(node.file("d/a"), node.file("d/b"), node.link("l", "a"), node.directory("own"))
    (node.root / "own/theirs").write_text("daemon data")
    result = node.bring(node.file("d/b"))
    assert node.names(result["removed"]) == ["d/a", "l"]
    assert sorted(node.names(node.root.iterdir())) == ["d", "foreign", "own"]
    assert result["kept"] == {str(node.root / "own"): "it is not empty"}
    result = node.bring()
    assert node.names(result["removed"]) == ["d/b", "d"]
    assert (node.root / "own/theirs").exists()


def test_a_file_changed_by_hand_is_kept_with_a_warning(node: Node):
    node.bring(node.file("a"), node.file("b"))
    (node.root / "a").write_text("mine")
    result = node.bring(node.file("b"))
    assert result["removed"] == []
    assert result["kept"] == {str(node.root / "a"): "it was changed by hand since bedplate wrote it"}
    assert "a is no longer wanted but stays" in result["problems"][0]
    assert (node.root / "a").read_text() == "mine"
    assert node.bring(node.file("b"))["changed"] is False


def test_a_file_replaced_by_a_directory_is_kept(node: Node):
    node.bring(node.file("a"))
    (node.root / "a").unlink()
    (node.root / "a").mkdir()
    assert "bedplate made a file, and now it is a directory" in node.bring()["kept"][str(node.root / "a")]


def test_a_file_that_was_there_already_as_wanted_is_not_removed(node: Node):
    (node.root / "a").write_text("x\n")
    (node.root / "a").chmod(0o644)
    result = node.bring(node.file("a"))
    assert result["changed_files"] == []
    assert node.bring()["kept"] == {str(node.root / "a"): "it was there before bedplate"}
    assert (node.root / "a").exists()


def test_a_file_of_two_manifests_goes_with_the_last(node: Node):
    node.bring(node.file("sub/a"), manifest="one")
    node.bring(node.file("sub/a"), manifest="two")
    assert node.bring(manifest="one")["removed"] == []
    assert (node.root / "sub/a").exists()
    assert node.names(node.bring(manifest="two")["removed"]) == ["sub/a", "sub"]


def test_a_directory_stays_while_another_manifest_has_something_in_it(node: Node):
    node.bring(node.file("sub/a"), manifest="one")
    node.bring(node.file("sub/b"), manifest="two")
    assert node.names(node.bring(manifest="one")["removed"]) == ["sub/a"]
    assert node.names(node.bring(manifest="two")["removed"]) == ["sub/b", "sub"]


def test_a_file_gone_by_hand_is_only_forgotten(node: Node):
    node.bring(node.file("a"), node.file("b"))
    (node.root / "a").unlink()
    result = node.bring(node.file("b"))
    assert result["removed"] == []
    assert result["kept"] == {}
    assert list(node.records()) == [str(node.root / "b")]


# Validation


def test_one_refused_file_and_nothing_is_written(node: Node):
    node.bring(node.file("a", "old\n"))
    before = node.snapshot()
    wanted = [node.file("a", "new\n"), node.file("b/c"), node.file("d", "bad", validate="grep -n good %s")]
    with pytest.raises(NodeFilesError, match="refused the new content") as error:
        node.bring(*wanted)
    assert f"{node.root}/d: 'grep -n good %s'" in str(error.value)
    assert node.snapshot() == before
    assert list(node.scratch.iterdir()) == []


def test_the_error_shows_what_the_command_said_but_not_of_a_secret(node: Node):
    wanted = [node.file("a", "PASSWORD=1", validate="sh -c 'cat %s; exit 3'")]
    with pytest.raises(NodeFilesError, match=r"ended with 3\): PASSWORD=1"):
        node.bring(*wanted)
    with pytest.raises(NodeFilesError) as error:
        node.bring(replace(wanted[0], sensitive=True))
    assert "PASSWORD" not in str(error.value)


def test_an_accepted_file_is_written_and_an_unchanged_one_not_validated(node: Node):
    log = node.scratch.parent / "log"
    entry = node.file("a", "good\n", validate=f"sh -c 'grep -q good %s && echo once >> {log}'")
    assert node.bring(entry)["changed"] is True
    assert node.bring(entry)["changed"] is False
    assert log.read_text() == "once\n"


def test_a_missing_command_is_a_note_in_check_mode_and_an_error_in_a_run(node: Node):
    entry = node.file("a", validate="no-such-command-here %s")
    assert (
        "no-such-command-here, which validates it, is not installed yet"
        in node.bring(entry, check=True)["unchecked"][0]
    )
    with pytest.raises(NodeFilesError, match="there is no no-such-command-here on this machine"):
        node.bring(entry)


def test_a_refusal_in_check_mode_counts_only_where_owner_and_directory_exist(node: Node):
    refuse = {"validate": "false %s"}
    with pytest.raises(NodeFilesError):
        node.bring(node.file("a", **refuse), check=True)
    assert "before its owner or directory exist" in node.bring(node.file("d/a", **refuse), check=True)["unchecked"][0]


# What stands in the way


def test_missing_owner_is_a_note_in_check_mode_and_an_error_in_a_run(node: Node):
    entry = node.file("a", owner="nosuchuser")
    predicted = node.bring(entry, check=True)
    assert predicted["changed"] is True
    assert "user nosuchuser does not exist yet" in predicted["unchecked"][0]
    with pytest.raises(NodeFilesError, match="there is no user 'nosuchuser'"):
        node.bring(entry)
    assert node.snapshot().keys() <= {str(node.root), str(node.state)}


def test_all_obstacles_come_in_one_error(node: Node):
    (node.root / "dir").mkdir()
    (node.root / "file").write_text("")
    wanted = [node.file("dir"), node.directory("file"), node.file("file/below"), node.file("a", group="nosuchgroup")]
    with pytest.raises(NodeFilesError) as error:
        node.bring(*wanted)
    text = str(error.value)
    assert "dir: is a directory on this machine, and a file is wanted" in text
    assert "file: is a file on this machine, and a directory is wanted" in text
    assert "is on this machine, but is no directory" in text
    assert "there is no group 'nosuchgroup'" in text


def test_a_bind_mounted_file_is_named(node: Node, monkeypatch: pytest.MonkeyPatch):
    real = Path.replace

    def busy(self, target):
        if str(target).endswith("/hosts"):
            raise OSError(16, "Device or resource busy")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", busy)
    with pytest.raises(NodeFilesError, match="it is a mount point"):
        node.bring(node.file("hosts"))
    assert list(node.root.iterdir()) == []
    assert node.records() == {}


def test_a_run_that_breaks_remembers_just_what_it_wrote(node: Node, monkeypatch: pytest.MonkeyPatch):
    node.bring(node.file("b", "old\n"))
    real = Path.replace

    def fail(self, target):
        if str(target).endswith("/b"):
            raise OSError(28, "No space left on device")
        return real(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(NodeFilesError, match="b: cannot be written: No space left"):
            node.bring(node.file("a"), node.file("b", "new\n"))
    assert sorted(node.names(node.root.iterdir())) == ["a", "b"]
    assert sorted(node.names(node.bring()["removed"])) == ["a", "b"]


def test_an_unreadable_manifest_stops_everything(node: Node):
    node.state.mkdir()
    (node.state / "files.json").write_text("{broken")
    with pytest.raises(NodeFilesError, match=r"cannot be read: .*move it away"):
        node.bring(node.file("a"))
    assert not (node.root / "a").exists()


def test_two_runs_at_once_lose_no_record(node: Node):
    names = [f"f{number}" for number in range(8)]
    threads = [
        threading.Thread(target=node.bring, args=(node.file(name),), kwargs={"manifest": name}) for name in names
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
        pytest.raises(NodeFilesError, match="another bedplate run"),
        node_manifest.locked(node.state, create=False),
    ):
        pass


# Diffs


def test_diffs_show_content_owner_and_mode(node: Node):
    node.bring(node.file("a", "old\n"))
    content, attributes = node.bring(node.file("a", "new\n", mode="0600"))["diff"]
    assert (content["before"], content["after"]) == ("old\n", "new\n")
    assert attributes["before"].endswith("0644\n")
    assert attributes["after"].endswith("0600\n")


@pytest.mark.parametrize("last", [{"content": "SECRET2"}, {"content": "SECRET2", "sensitive": False}, None])
def test_no_diff_shows_a_secret(node: Node, last: dict | None):
    results = [node.bring(node.file("a", "SECRET1", sensitive=True))]
    wanted = [] if last is None else [node.file("a", **{"sensitive": True, **last})]
    results.append(node.bring(*wanted))
    assert all(result["diff"] for result in results)
    assert "SECRET" not in json.dumps(results)
    assert results[1]["diff"][0]["before"] != results[1]["diff"][0]["after"]


def test_diffs_of_large_and_binary_files_are_short(node: Node):
    result = node.bring(node.file("large", "x" * 200_000), node.file("binary", b"\xff\x00\x01"))
    assert len(json.dumps(result)) < 2000


@given(st.lists(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_a_payload_arrives_as_it_was_sent(contents: list[bytes]):
    files = [Wanted(f"/f{number}", content=data, notify=["a"]) for number, data in enumerate(contents)]
    assert unpack(pack(files)) == files


@pytest.mark.parametrize("check", [False, True])
def test_what_must_not_be_replaced_stays_and_so_does_all_else(node: Node, check: bool):
    node.bring(node.file("key", "old"), node.file("other", "old"))
    before = node.snapshot()
    with pytest.raises(NodeFilesError) as caught:
        node.bring(node.file("key", "new", refusal="no.", replaces=["0" * 64]), node.file("other", "new"), check=check)
    assert caught.value.problems == [f"{node.root}/key: no."]
    assert node.snapshot() == before


def test_what_must_not_be_replaced_may_be_by_its_heir_or_where_bedplate_did_not_write_it(node: Node):
    (node.root / "package").write_text("of a package")
    node.bring(node.file("key", "old"), node.file("same", "same"), node.file("edited", "right"))
    (node.root / "edited").write_text("wrong")
    entries = [
        node.file("key", "new", refusal="no.", replaces=[node_manifest.digest(b"old")]),
        *(node.file(*entry, refusal="no.") for entry in (("same", "same"), ("edited", "right"), ("package", "new"))),
    ]
    result = node.bring(*entries, node.file("absent", "new", refusal="no."))
    assert node.names(result["changed_files"]) == ["key", "edited", "package", "absent"]
    assert unpack(pack(entries)) == entries
