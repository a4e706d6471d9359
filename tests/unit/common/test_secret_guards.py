# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets stay where they are: what is refused, and what only looks at a secret writes nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets, secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import (
    SecretError,
    SecretStore,
    git_mistake,
)

TEMPLAR = SimpleNamespace(template=lambda value: value)


def given(values: Any) -> GivenSecrets:
    return GivenSecrets(values, lambda value: value, Path.read_bytes)


def secrets(directory: Path) -> ClusterSecrets:
    return ClusterSecrets(given({}), lambda: directory)


def put(directory: Path, name: str, data: bytes) -> Path:
    """Write a secret as its owner does, without bedplate."""
    directory.mkdir(mode=0o700, exist_ok=True)
    (directory / name).write_bytes(data)
    (directory / name).chmod(0o400)
    return directory / name


@pytest.mark.parametrize("key", ["replace", "owner"])
def test_a_key_that_means_nothing_is_refused_beside_a_right_one(key: str) -> None:
    (mistake,) = given({"token": {"text": "s3cret", key: []}}).mistakes()
    assert mistake.startswith("bedplate_secrets.token: ")
    assert key in mistake


def test_a_link_to_a_file_of_a_work_tree_could_be_committed_too(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "tree")], check=True)
    file = put(tmp_path / "tree/keys", "token", b"s3cret")
    link = tmp_path / "token"
    link.symlink_to(file)
    assert str(tmp_path / "tree") in git_mistake(link)
    assert given({"token": {"file": str(link)}}).mistakes() != []
    # A link in the tree names a place, and has no secret.
    outside = put(tmp_path / "outside", "token", b"s3cret")
    (tmp_path / "tree/link").symlink_to(outside)
    assert git_mistake(tmp_path / "tree/link") == ""


def test_only_the_first_secret_of_another_program_is_made(tmp_path: Path) -> None:
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"key %d" % len(made))
        return made[-1]

    found = secrets(tmp_path)
    assert [found.keep("mirror_signing_key", make) for _ in range(2)] == [b"key 0", b"key 0"]
    assert made == [b"key 0"]


def test_what_only_looks_at_a_secret_writes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "secrets"
    put(directory, "munge_key", b"k" * 32)
    put(directory, "mirror_password", b"s3cret\n")
    found = secrets(directory)
    assert (found.mistake("munge_key"), found.existing_text("mirror_password")) == ("", "s3cret")
    assert sorted(path.name for path in directory.iterdir()) == ["mirror_password", "munge_key"]


def test_a_relative_file_is_beside_the_cluster_file(tmp_path: Path) -> None:
    put(tmp_path, "token", b"s3cret")
    variables = {"bedplate_secrets": {"token": {"file": "token"}}}
    assert (
        secrets_of({**variables, "bedplate_cluster_file": f"{tmp_path}/a.yml"}, TEMPLAR, None).get("token") == b"s3cret"
    )
    with pytest.raises(SecretError):
        secrets_of(variables, TEMPLAR, None).get("token")


def test_the_directory_of_a_lookup_is_used_before_that_of_the_variable(tmp_path: Path) -> None:
    put(tmp_path / "own", "token", b"own")
    put(tmp_path / "other", "token", b"other")
    variables = {"bedplate_secrets_dir": str(tmp_path / "other")}
    assert secrets_of(variables, TEMPLAR, None, str(tmp_path / "own")).text("token") == "own"
    assert secrets_of(variables, TEMPLAR, None).text("token") == "other"
    assert SecretStore(tmp_path / "own").known("token") != []
