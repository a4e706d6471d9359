# SPDX-License-Identifier: GPL-3.0-or-later
"""What a store of secrets returns, what it leaves on disk, and what it refuses."""

from __future__ import annotations

import multiprocessing
import os
import re
import stat
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import digest
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import secrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import (
    SecretError,
    SecretStore,
    directory_of,
    user_name,
)
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")


def said(error: pytest.ExceptionInfo[SecretError], base: Path) -> list[str]:
    """Return a message without the directories and the user of a test."""
    return [str(error.value).replace(str(base), "").replace(f" by {user_name()}", " by USER")]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state" / "bedplate" / "pod"


@pytest.fixture
def work_tree(tmp_path: Path) -> Path:
    tree = tmp_path / "site"
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    return tree


@pytest.mark.parametrize(
    ("name", "kind", "length", "size"),
    [
        ("munge_key", None, None, 1024),
        ("jwt_key", None, None, 32),
        ("slurm_database_password", None, None, 32),
        ("anything", "bytes", None, 32),
        ("anything", "bytes", 64, 64),
        ("munge_key", None, 2048, 2048),
        ("munge_key", "password", None, 32),
        ("anything", "password", 40, 40),
    ],
)
def test_size(directory: Path, name: str, kind: str | None, length: int | None, size: int) -> None:
    assert len(SecretStore(directory).get(name, kind, length)) == size


def test_a_password_needs_no_quoting(directory: Path) -> None:
    found = b"".join(SecretStore(directory).get(f"p{number}") for number in range(50))
    assert found.isalnum()
    assert len(set(found)) > 50


def test_a_secret_stays_and_differs_from_others_and_from_other_clusters(directory: Path) -> None:
    first = SecretStore(directory).get("a")
    assert SecretStore(directory).get("a") == first
    assert SecretStore(directory).get("a", "bytes", 64) == first
    assert SecretStore(directory).get("b") != first
    assert SecretStore(directory.with_name("other")).get("a") != first


def test_only_the_owner_can_read_what_is_made(directory: Path) -> None:
    before = os.umask(0)
    try:
        SecretStore(directory).get("munge_key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((directory / "munge_key").stat().st_mode) == 0o400
    assert [stat.S_IMODE(path.stat().st_mode) for path in (directory, directory.parent)] == [0o700, 0o700]
    assert sorted(path.name for path in directory.iterdir()) == [".munge_key.known", "munge_key"]
    assert stat.S_IMODE((directory / ".munge_key.known").stat().st_mode) == 0o600


def test_many_at_once_agree(directory: Path) -> None:
    # Not Pool: leaving it terminates its workers, one of which may then hold the lock that another waits for.
    with ProcessPoolExecutor(8, mp_context=multiprocessing.get_context("fork")) as pool:
        found = set(pool.map(SecretStore(directory).get, ["munge_key"] * 64))
    assert len(found) == 1
    assert sorted(path.name for path in directory.iterdir()) == [".munge_key.known", "munge_key"]
    assert set(SecretStore(directory).known("munge_key")) == {digest(found.pop())}


def test_the_directory_knows_what_it_has_had(directory: Path) -> None:
    store = SecretStore(directory)
    assert store.known("a") == []
    first = store.get("a")
    (directory / "a").unlink()
    second = store.get("a")
    (directory / "a").unlink()
    (directory / "a").write_text("from elsewhere")
    (directory / "a").chmod(0o400)
    third = store.get("a")
    store.get("a")
    store.get("b")
    assert store.known("a") == [digest(first), digest(second), digest(third)]


def test_check_mode_does_not_note_what_it_reads(directory: Path) -> None:
    directory.mkdir(parents=True, mode=0o700)
    (directory / "a").write_text("from elsewhere")
    (directory / "a").chmod(0o400)
    assert SecretStore(directory).get("a", create=False) == b"from elsewhere"
    assert [path.name for path in directory.iterdir()] == ["a"]


def test_a_history_that_is_none(directory: Path) -> None:
    (directory / ".a.known").mkdir(parents=True)
    directory.chmod(0o700)
    with pytest.raises(SecretError, match=f"^{directory}/.a.known .* by {user_name()}: ") as caught:
        SecretStore(directory).known("a")
    sentences.check(SENTENCES, "a history of a secret that cannot be read", said(caught, directory))


def test_check_mode_makes_nothing_and_shows_the_same_each_time(directory: Path) -> None:
    stand_in = SecretStore(directory).get("munge_key", create=False)
    assert stand_in == SecretStore(directory).get("munge_key", create=False)
    assert stand_in.decode().isprintable() or stand_in.endswith(b"\n")
    assert not directory.exists()
    made = SecretStore(directory).get("munge_key")
    assert made != stand_in
    assert SecretStore(directory).get("munge_key", create=False) == made


def test_a_line_end_that_an_editor_left_is_no_part_of_a_password(directory: Path) -> None:
    directory.mkdir(parents=True, mode=0o700)
    (directory / "token").write_text("s3cret\n")
    (directory / "token").chmod(0o400)
    store = SecretStore(directory)
    assert store.text("token") == "s3cret"
    assert store.get("token") == b"s3cret\n"


@pytest.mark.parametrize("name", ["munge_key", "anything"])
def test_random_bytes_are_no_text(directory: Path, name: str) -> None:
    store = SecretStore(directory)
    store.get(name, "bytes", 256)
    with pytest.raises(SecretError, match=rf"^secret {name}: {directory}/{name} .*`secret: {name}`") as caught:
        store.text(name)
    sentences.check(SENTENCES, f"random bytes of {name} as a text", said(caught, directory))


@pytest.mark.parametrize("create", [True, False])
def test_asking_for_a_key_as_text_makes_no_short_one(directory: Path, create: bool) -> None:
    with pytest.raises(SecretError, match="`secret: munge_key`"):
        SecretStore(directory).text("munge_key", create=create)
    assert not directory.exists()


@pytest.mark.parametrize("name", ["", "../munge_key", "a/b", ".hidden", "Munge", "munge-key", "a b", "munge_key\n"])
def test_a_name_that_is_none(directory: Path, name: str) -> None:
    with pytest.raises(SecretError, match=re.escape(repr(name))) as caught:
        SecretStore(directory).get(name)
    sentences.check(SENTENCES, "a name of a secret that is none", [str(caught.value).replace(repr(name), "NAME")])
    assert not directory.exists()


@pytest.mark.parametrize(("kind", "length"), [("key", None), ("bytes", 15), ("password", 0), ("bytes", 65537)])
def test_a_shape_that_is_none(directory: Path, kind: str, length: int | None) -> None:
    with pytest.raises(SecretError, match=rf"^secret a: .*{kind if kind == 'key' else length}"):
        SecretStore(directory).get("a", kind, length)
    assert not directory.exists()


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o720])
def test_a_directory_open_to_others(directory: Path, mode: int) -> None:
    directory.mkdir(parents=True)
    directory.chmod(mode)
    with pytest.raises(SecretError, match=rf"^{directory}.*mode {mode:04o}.*chmod 0700 {directory}") as caught:
        SecretStore(directory)
    text = said(caught, directory)[0].replace(f"{mode:04o}", "MODE")
    sentences.check(SENTENCES, "a directory of secrets that is open to others", [text])


@pytest.mark.parametrize("mode", [0o440, 0o604])
def test_a_secret_open_to_others(directory: Path, mode: int) -> None:
    store = SecretStore(directory)
    store.get("a")
    (directory / "a").chmod(mode)
    with pytest.raises(SecretError, match=rf"^{directory}/a .*mode {mode:04o}.*chmod 0400 {directory}/a") as caught:
        store.get("a")
    text = said(caught, directory)[0].replace(f"{mode:04o}", "MODE")
    sentences.check(SENTENCES, "a secret that is open to others", [text])


def test_an_empty_secret(directory: Path) -> None:
    directory.mkdir(parents=True, mode=0o700)
    (directory / "a").touch(0o400)
    with pytest.raises(SecretError, match=f"^{directory}/a ") as caught:
        SecretStore(directory).get("a")
    sentences.check(SENTENCES, "a secret that is empty", said(caught, directory))


def test_a_directory_that_depends_on_where_the_command_runs() -> None:
    with pytest.raises(SecretError, match="'secrets'") as caught:
        SecretStore("secrets")
    sentences.check(SENTENCES, "a relative directory of secrets", [caught.value])


def test_a_work_tree_that_does_not_ignore_it(work_tree: Path) -> None:
    with pytest.raises(SecretError, match=rf"^{work_tree}/secrets .*{work_tree} .*\.gitignore") as caught:
        SecretStore(work_tree / "secrets")
    sentences.check(SENTENCES, "secrets in a work tree of git", said(caught, work_tree.parent))


def test_a_link_into_a_work_tree(work_tree: Path, directory: Path) -> None:
    directory.parent.mkdir(parents=True)
    (work_tree / "secrets").mkdir(mode=0o700)
    directory.symlink_to(work_tree / "secrets")
    with pytest.raises(SecretError, match=rf"^{directory} .*{work_tree} .*\.gitignore"):
        SecretStore(directory)


@pytest.mark.parametrize("pattern", ["secrets/", "/secrets", "sec*"])
def test_a_work_tree_that_ignores_it(work_tree: Path, pattern: str) -> None:
    (work_tree / ".gitignore").write_text(f"{pattern}\n")
    assert len(SecretStore(work_tree / "secrets").get("a")) == 32


def test_inside_a_hook_of_another_repository(work_tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (work_tree / ".gitignore").write_text("secrets/\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere" / ".git"))
    assert len(SecretStore(work_tree / "secrets").get("a")) == 32


def test_a_work_tree_without_git(work_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SEARCH_PATH", "/nonexistent")
    with pytest.raises(SecretError, match=rf"^{work_tree}/secrets .*{work_tree} .*git: .*\.gitignore") as caught:
        SecretStore(work_tree / "secrets")
    sentences.check(SENTENCES, "secrets in a work tree without git", said(caught, work_tree.parent))


def test_a_work_tree_whose_git_hangs(work_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = command.Outcome(None, "", "stopped after 30 s")
    monkeypatch.setattr(secrets, "run", lambda _argv, _seconds, environment: hangs)
    with pytest.raises(SecretError, match=rf"^{work_tree}/secrets .*{work_tree} .*30 s.*\.gitignore") as caught:
        SecretStore(work_tree / "secrets")
    sentences.check(SENTENCES, "secrets in a work tree whose git hangs", said(caught, work_tree.parent))


@pytest.mark.parametrize(
    ("variables", "state", "expected"),
    [
        ({"bedplate_cluster": "pod"}, "", "/home/op/.local/state/bedplate/pod"),
        ({"bedplate_cluster": "pod"}, "/srv/state", "/srv/state/bedplate/pod"),
        ({"bedplate_cluster": "pod"}, "not/absolute", "/home/op/.local/state/bedplate/pod"),
        ({"bedplate_cluster": "pod", "bedplate_secrets_dir": "/srv/keys"}, "/srv/state", "/srv/keys"),
        ({"bedplate_secrets_dir": "~/keys"}, "", "/home/op/keys"),
    ],
)
def test_directory_of(monkeypatch: pytest.MonkeyPatch, variables: dict[str, object], state: str, expected: str) -> None:
    monkeypatch.setenv("HOME", "/home/op")
    monkeypatch.setenv("XDG_STATE_HOME", state)
    assert directory_of(variables) == Path(expected)


@pytest.mark.parametrize(
    ("variables", "match"),
    [
        ({}, "bedplate_secrets_dir .*bedplate_cluster "),
        ({"bedplate_cluster": "../other"}, "bedplate_cluster '../other'"),
        ({"bedplate_cluster": ".."}, r"bedplate_cluster '\.\.'"),
    ],
)
def test_directory_of_nothing(variables: dict[str, object], match: str) -> None:
    with pytest.raises(SecretError, match=match) as caught:
        directory_of(variables)
    sentences.check(SENTENCES, f"the directory of secrets where {variables} is known", [caught.value])
