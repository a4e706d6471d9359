# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that the control node has or lacks, without making any: a new munge key would cut off nodes with running jobs."""

from __future__ import annotations

from collections.abc import Mapping

from ..common.cluster_secrets import ClusterSecrets
from ..common.secrets import NAME


def existing(secrets: ClusterSecrets, name: str) -> bytes:
    """Return a secret that exists, b"" if it does not. SecretError: it cannot be read."""
    if given := secrets.given.get(name):
        return given.data
    return secrets.store.get(name, create=False) if secrets.store.has(name) else b""


def missing(secrets: ClusterSecrets, backup: Mapping[str, bytes]) -> list[str]:
    """Return the names of a backup's secrets that the control node lacks; records of earlier keys are not among them."""
    return sorted(name for name in backup if NAME.match(name) and not existing(secrets, name))


def restore(secrets: ClusterSecrets, backup: Mapping[str, bytes]) -> list[str]:
    """Write missing secrets into the secrets directory, and return their names. SecretError: they cannot be written."""
    names = missing(secrets, backup)
    for name in names:
        secrets.store.keep(name, lambda data=backup[name]: data)  # type: ignore[misc]
    return names
