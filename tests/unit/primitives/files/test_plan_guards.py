# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run refuses before it writes, and what it leaves in its place: on paths below a temporary directory."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import blocks, file_plan, file_writer
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import manifest as node_manifest
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile, plan
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError

ME = {"owner": str(os.getuid()), "group": str(os.getgid())}


def file(path: Path, content: str = "new\n", **keys: Any) -> DesiredFile:
    return DesiredFile(str(path), content=content.encode(), **{**ME, **keys})


def apply(base: Path, *wanted: DesiredFile, manifest: str = "demo", check: bool = False) -> dict[str, Any]:
    scratch = base / "scratch"
    scratch.mkdir(exist_ok=True)
    return file_writer.apply(manifest, list(wanted), base / "state", check, True, str(scratch))


def refused(base: Path, *wanted: DesiredFile) -> list[str]:
    """Return the paths of the problems of a run, which has written nothing."""
    untouched = base / "untouched"
    with pytest.raises(NodeFilesError) as caught:
        apply(base, *wanted, file(untouched))
    assert not untouched.exists()
    return [text.split(": ")[0] for text in caught.value.problems]


def put(path: Path, text: str = "old\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_a_special_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    os.mkfifo(path)
    assert refused(tmp_path, file(path)) == [str(path)]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_mounted_file_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "hosts")
    monkeypatch.setattr(file_plan, "mount_points", lambda: {str(path)})
    assert refused(tmp_path, file(path)) == [str(path)]
    assert path.read_text() == "old\n"
    # As it is to be, it needs no replacement.
    assert plan("demo", [file(path, "old\n")], {}, check=False).problems == []


def test_only_root_gives_a_file_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_plan.os, "geteuid", lambda: 4242)
    found = plan("demo", [file(tmp_path / name, owner=owner) for name, owner in (("a", "4242"), ("b", "0"))], {}, False)
    assert [text.split(": ")[0] for text in found.problems] == [str(tmp_path / "b")]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = file_plan.probe

    def failing(path: str) -> file_plan.Current:
        if path.endswith("/bad"):
            raise OSError(errno.EIO, "Input/output error")
        return probe(path)

    monkeypatch.setattr(file_plan, "probe", failing)
    assert refused(tmp_path, file(tmp_path / "bad")) == [str(tmp_path / "bad")]


def test_a_block_goes_into_a_file_and_never_into_what_a_link_names(tmp_path: Path) -> None:
    real = put(tmp_path / "real")
    link = tmp_path / "sshd"
    link.symlink_to(real)
    assert refused(tmp_path, DesiredFile(str(link), state="block", content=b"x\n")) == [str(link)]
    assert real.read_text() == "old\n"
    assert link.is_symlink()


def test_the_diff_of_a_block_has_its_lines_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "sshd")
    diff = apply(tmp_path, DesiredFile(str(path), state="block", content=b"x\n"))["diff"]
    assert [one["before_header"] for one in diff] == [str(path)]


@pytest.mark.parametrize("state", ["active", "activating", "reloading"])
def test_a_unit_that_starts_uses_its_key_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    monkeypatch.setattr(file_plan, "run", lambda _argv, _seconds: Outcome(3, f"{state}\n", ""))
    path = put(tmp_path / "key")
    assert refused(tmp_path, file(path, used_by=["slurmd.service"])) == [str(path)]


def test_what_is_guarded_may_replace_a_link_of_bedplate(tmp_path: Path) -> None:
    """A record without a digest says nothing of a key."""
    path = tmp_path / "key"
    apply(tmp_path, DesiredFile(str(path), state="link", target="/etc/other"))
    apply(tmp_path, file(path, refusal="another key"))
    assert path.read_text() == "new\n"


def test_a_refused_file_of_a_new_directory_is_not_written(tmp_path: Path) -> None:
    """In check mode alone the command may fail because the directory does not exist yet."""
    path = tmp_path / "new/a"
    wanted = file(path, validate="sh -c 'exit 1' %s")
    assert refused(tmp_path, wanted) == [str(path)]
    assert not path.parent.exists()
    assert apply(tmp_path, wanted, check=True)["unchecked"] != []


def test_a_command_that_does_not_end_accepts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a")
    monkeypatch.setattr(file_writer.node_command, "run", lambda _argv: Outcome(None, "", ""))
    assert refused(tmp_path, file(path, validate="true %s")) == [str(path)]
    assert path.read_text() == "old\n"


def test_the_copy_that_a_command_judges_is_private(tmp_path: Path) -> None:
    note = tmp_path / "note"
    apply(tmp_path, file(tmp_path / "a", validate=f'sh -c \'stat -c %a "$(dirname "$0")" >{note}\' %s'))
    assert note.read_text() == "700\n"


def test_a_disk_that_is_full_changes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = put(tmp_path / "a"), put(tmp_path / "b")
    create = file_writer.create

    def full(path: Path, *arguments: Any, **keys: Any) -> None:
        if path.name.startswith(".b."):
            raise OSError(errno.ENOSPC, "No space left on device")
        create(path, *arguments, **keys)

    monkeypatch.setattr(file_writer, "create", full)
    with pytest.raises(NodeFilesError, match=str(second)):
        apply(tmp_path, file(first), file(second))
    assert [path.read_text() for path in (first, second)] == ["old\n", "old\n"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "scratch", "state"]


def test_a_killed_run_forgets_no_file_that_it_was_about_to_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old"
    apply(tmp_path, file(old))
    save, seen = node_manifest.save, []

    def spy(directory: Path, records: Any) -> None:
        seen.append(set(records))
        save(directory, records)

    monkeypatch.setattr(node_manifest, "save", spy)
    apply(tmp_path, file(tmp_path / "new"))
    assert seen == [{str(old), str(tmp_path / "new")}, {str(tmp_path / "new")}]


def test_a_missing_parent_is_open_to_all_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        apply(tmp_path, file(tmp_path / "new/deep/a"))
    finally:
        os.umask(before)
    assert [mode_of(tmp_path / name) for name in ("new", "new/deep")] == [0o755, 0o755]


def test_a_new_directory_is_private_until_it_has_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    monkeypatch.setattr(file_writer.os, "chown", lambda path, _uid, _gid: modes.append(mode_of(path)))
    apply(tmp_path, DesiredFile(str(tmp_path / "keys"), state="directory", mode="0755", **ME))
    assert modes == [0o700]
    assert mode_of(tmp_path / "keys") == 0o755


def test_a_file_that_somebody_creates_meanwhile_keeps_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    apply(tmp_path, DesiredFile(str(folder), state="directory", **ME))
    rmdir = Path.rmdir

    def late(path: Path) -> None:
        if path == folder:
            (folder / "job").write_text("1")
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", late)
    apply(tmp_path)
    assert (folder / "job").read_text() == "1"


def test_a_file_that_somebody_removes_meanwhile_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    apply(tmp_path, file(path))
    unlink = Path.unlink

    def twice(one: Path, *arguments: Any, **keys: Any) -> None:
        if one == path:
            unlink(one)
        unlink(one, *arguments, **keys)

    monkeypatch.setattr(Path, "unlink", twice)
    assert apply(tmp_path)["removed"] == [str(path)]


def test_the_new_file_takes_the_context_of_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create, seen = file_writer.create, []

    def spy(path: Path, *arguments: Any, context_of: Path | None = None, **keys: Any) -> None:
        seen.append(context_of)
        create(path, *arguments, context_of=context_of, **keys)

    monkeypatch.setattr(file_writer, "create", spy)
    apply(tmp_path, file(tmp_path / "a"))
    assert seen == [tmp_path / "a"]


def test_a_link_that_somebody_turned_elsewhere_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "link"
    apply(tmp_path, DesiredFile(str(path), state="link", target="/etc/a"))
    path.unlink()
    path.symlink_to("/etc/mine")
    found = apply(tmp_path)
    assert (found["removed"], list(found["kept"])) == ([], [str(path)])
    assert str(path.readlink()) == "/etc/mine"


def test_each_manifest_of_a_shared_file_keeps_its_handler(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for manifest in ("one", "two"):
        apply(tmp_path, file(path, notify=[f"Restart {manifest}"]), manifest=manifest)
    assert apply(tmp_path, manifest="one")["notify"] == []
    assert apply(tmp_path, manifest="two")["notify"] == ["Restart one", "Restart two"]


def test_a_record_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    apply(tmp_path, file(path))
    record = tmp_path / "state/files.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "version": 2}))
    with pytest.raises(NodeFilesError, match=r"files\.json"):
        apply(tmp_path, file(path, "newer\n"))
    assert path.read_text() == "new\n"


def test_no_diff_shows_a_secret_that_a_link_replaces(tmp_path: Path) -> None:
    path = tmp_path / "key"
    apply(tmp_path, file(path, "s3cret\n", sensitive=True))
    diff = apply(tmp_path, DesiredFile(str(path), state="link", target="/run/key"))["diff"]
    assert "s3cret" not in str(diff)
    assert "/run/key" in str(diff)


def test_no_diff_has_a_null(tmp_path: Path) -> None:
    diff = apply(tmp_path, file(tmp_path / "a", "x\0y"))["diff"]
    assert not any("\0" in one["after"] for one in diff)


@pytest.mark.parametrize("after", ["^account", ""])
def test_a_block_begins_on_its_own_line(after: str) -> None:
    lines = blocks.placed(b"auth\naccount", "demo", b"x", after).splitlines()
    assert lines == [b"auth", b"account", b"# bedplate demo: begin", b"x", b"# bedplate demo: end"]


def test_a_block_goes_after_the_last_line_that_matches() -> None:
    assert blocks.placed(b"a 1\nb\na 2\nc\n", "demo", b"x", "^a").startswith(b"a 1\nb\na 2\n# bedplate demo: begin\n")


@pytest.mark.parametrize(
    ("text", "there"),
    [
        (b"# bedplate demo: begin\n# bedplate demo: end\n", True),
        (b"# bedplate demo: begin\nx\n", False),
        (b"x\n", False),
    ],
)
def test_a_block_is_there_with_both_marks_alone(text: bytes, there: bool) -> None:
    assert blocks.has_block(text, "demo") is there
