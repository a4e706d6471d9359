# SPDX-License-Identifier: GPL-3.0-or-later
"""A restore writes the secrets that the control node lacks, and makes or replaces none."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import existing_secrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets

BACKUP = {"munge_key": b"m" * 1024, "jwt_key": b"j" * 32, ".munge_key.known": b"digest\n", "../outside": b"x"}


def secrets_in(directory: Path) -> ClusterSecrets:
    given = GivenSecrets(None, lambda value: value, lambda _path: b"", "")
    return ClusterSecrets(given, lambda: directory)


def test_missing_secrets_are_restored_and_others_stay(tmp_path: Path):
    directory = tmp_path / "secrets"
    directory.mkdir(mode=0o700)
    (directory / "jwt_key").write_bytes(b"k" * 32)
    (directory / "jwt_key").chmod(0o400)
    secrets = secrets_in(directory)
    assert existing_secrets.existing(secrets, "munge_key") == b""
    assert existing_secrets.missing(secrets, BACKUP) == ["munge_key"]
    assert existing_secrets.restore(secrets, BACKUP) == ["munge_key"]
    assert (directory / "munge_key").read_bytes() == BACKUP["munge_key"]
    assert (directory / "munge_key").stat().st_mode & 0o777 == 0o400
    assert (directory / "jwt_key").read_bytes() == b"k" * 32
    assert existing_secrets.restore(secrets, BACKUP) == []


def test_looking_makes_no_secret(tmp_path: Path):
    secrets = secrets_in(tmp_path / "none")
    assert existing_secrets.missing(secrets, BACKUP) == ["jwt_key", "munge_key"]
    assert not (tmp_path / "none").exists()
