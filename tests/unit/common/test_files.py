"""Files that are written in one step: whole, on the disk before they have their name, and nobody else's to read meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import files
from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import (
    atomic_link,
    atomic_place,
    atomic_write,
    create,
    sync_directory,
    temporaries_of,
    temporary_of,
    write_new,
)


@pytest.fixture(autouse=True, params=[0, 0o077], ids=["open umask", "closed umask"])
def umask(request: pytest.FixtureRequest):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.conf"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def test_a_new_file_has_the_stated_mode_or_that_of_a_public_one(path: Path) -> None:
    atomic_write(path, "text\n")
    atomic_write(path.with_name("key"), b"\xff", mode=0o400)
    assert (path.read_text(), mode(path)) == ("text\n", 0o644)
    assert (path.with_name("key").read_bytes(), mode(path.with_name("key"))) == (b"\xff", 0o400)


def test_a_file_that_is_there_keeps_mode_and_owner_unless_others_are_stated(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o4750)
    owner = (12345, 54321) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(path, *owner)
    path.chmod(0o4750)
    atomic_write(path, "new")
    assert (mode(path), (path.stat().st_uid, path.stat().st_gid)) == (0o4750, owner)
    atomic_write(path, "newer", mode=0o600)
    assert (mode(path), path.stat().st_uid) == (0o600, os.geteuid())
    atomic_write(path, "newest", mode=0o640, owner=owner)
    assert (mode(path), path.stat().st_uid) == (0o640, owner[0])


def test_who_has_the_old_file_open_reads_it_whole(path: Path) -> None:
    path.write_text("old")
    with path.open() as reader:
        atomic_write(path, "new")
        assert (reader.read(), path.read_text()) == ("old", "new")


def test_a_link_at_the_path_is_replaced_and_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("theirs")
    path.symlink_to("elsewhere")
    atomic_write(path, "ours", mode=0o600)
    assert ((tmp_path / "elsewhere").read_text(), path.read_text(), path.is_symlink()) == ("theirs", "ours", False)


def test_a_file_or_a_link_in_the_place_of_the_temporary_is_an_error_and_stays(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        create(path, "secret", 0o600)
    assert (path.is_symlink(), (tmp_path / "elsewhere").exists()) == (True, False)


def test_nobody_else_reads_it_before_owner_and_mode_are_right(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, fchown, fchmod = [], os.fchown, os.fchmod

    def spy(real: Callable[..., None]) -> Callable[..., None]:
        def spied(descriptor: int, *values: int) -> None:
            status = os.fstat(descriptor)
            seen.append((status.st_mode & 0o077, status.st_size))
            real(descriptor, *values)

        return spied

    monkeypatch.setattr(os, "fchown", spy(fchown))
    monkeypatch.setattr(os, "fchmod", spy(fchmod))
    owner = (os.geteuid(), os.getegid())
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    atomic_write(path, "secret", mode=0o644, owner=owner)
    assert seen == [(0, 6), (0, 6)]


def test_it_gets_the_selinux_context_of_the_file_that_it_replaces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(
        os, "getxattr", lambda file, name, follow_symlinks: f"{name} of {file} {follow_symlinks}".encode()
    )
    monkeypatch.setattr(os, "setxattr", lambda descriptor, name, value: given.append((name, value.decode())))
    atomic_write(path, "text")
    assert given == [("security.selinux", f"security.selinux of {path} False")]


def test_content_is_on_the_disk_before_the_name_and_the_name_at_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def fsync(descriptor: int) -> None:
        file = Path(f"/proc/self/fd/{descriptor}")
        synced.append(("" if file.is_dir() else file.read_text(), path.exists() and path.read_text()))

    monkeypatch.setattr(os, "fsync", fsync)
    atomic_write(path, "a")
    atomic_write(path, "b", sync=False)
    assert synced == [("a", False), ("", "a")]
    synced.clear()
    write_new(path.with_name("other"), b"c", 0o600)
    assert [text for text, _there in synced] == ["c", ""]
    synced.clear()
    atomic_link(path.with_name("link"), "target")
    assert [text for text, _there in synced] == [""]


@pytest.mark.parametrize("call", ["fchmod", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_fails_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    path.write_text("old")

    def fails(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(Path if call == "replace" else os, call, fails)
    with pytest.raises(type(error)):
        atomic_write(path, "new", mode=0o600)
    assert (path.read_text(), names(path)) == ("old", ["file.conf"])


def test_a_file_system_without_owners_is_an_error_only_where_they_are_stated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_arguments: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuses)
    atomic_write(path, "loader")
    assert path.read_text() == "loader"
    with pytest.raises(PermissionError):
        atomic_write(path, "secret", mode=0o600)


def test_a_link_is_made_in_one_step(path: Path) -> None:
    path.write_text("file")
    atomic_link(path, "target")
    assert (str(path.readlink()), names(path)) == ("target", ["file.conf"])


def test_a_whole_file_gets_one_more_name_without_a_copy(path: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("much")
    path.write_text("old")
    atomic_place(source, path, 0o644)
    assert (path.read_text(), path.stat().st_ino, mode(path)) == ("much", source.stat().st_ino, 0o644)
    assert names(path) == ["file.conf", "source"]


@pytest.mark.parametrize("call", ["chmod", "replace"])
def test_a_name_that_cannot_be_given_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    source = path.with_name("source")
    source.write_text("much")

    def fails(*_arguments: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, call, fails)
    with pytest.raises(PermissionError):
        atomic_place(source, path, 0o644)
    assert names(path) == ["source"]


def test_the_first_of_many_that_make_a_file_wins(path: Path) -> None:
    assert write_new(path, b"first", 0o400) is True
    assert write_new(path, b"second", 0o644) is False
    assert (path.read_bytes(), mode(path), names(path)) == (b"first", 0o400, ["file.conf"])


def test_what_a_killed_run_left_is_known_by_its_name(path: Path) -> None:
    half = temporary_of(path)
    assert half.parent == path.parent
    others = (".file.conf.tmp", ".file_conf.0123abcd.tmp", f"{half.name}.bak", f"{half.name}\n")
    for other in (half, path, *(path.with_name(name) for name in others)):
        other.write_text("")
    assert temporaries_of(path) == [half]
    long = path.with_name("x" * 255)
    atomic_write(long, "fits")
    assert temporaries_of(long) == []


def test_a_file_that_has_its_name_is_written_whatever_its_directory_says(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would say that nothing has changed."""

    def fails(_directory: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "sync_directory", fails)
    atomic_write(path, "new")
    atomic_link(path.with_name("link"), "file.conf")
    assert write_new(path.with_name("key"), b"x", 0o400)
    assert (path.read_text(), names(path)) == ("new", ["file.conf", "key", "link"])


def test_a_directory_that_cannot_be_synchronised_is_no_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(number: int) -> Callable[[int], None]:
        def fsync(_descriptor: int) -> None:
            raise OSError(number, os.strerror(number))

        return fsync

    monkeypatch.setattr(files.os, "fsync", fails(errno.EINVAL))
    sync_directory(path.parent)
    monkeypatch.setattr(files.os, "fsync", fails(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        sync_directory(path.parent)
