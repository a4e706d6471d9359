# SPDX-License-Identifier: GPL-3.0-or-later
"""The old and the new secret of a turn, in the secrets directory or in `bedplate_secrets`.

In the directory the new secret is `<name>_next` until all machines have it. Then it becomes `<name>`, and the old one `<name>_old` until
the turn is finished. A secret of `bedplate_secrets` is the site's: the site gives `<name>_next`, and makes it `<name>` afterwards.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..common.cluster_secrets import ClusterSecrets
from ..common.given_secrets import VARIABLE
from ..common.secrets import SecretError

NEXT, OLD = "_next", "_old"


class TurnedSecrets:
    """Secrets of a cluster while they are replaced."""

    def __init__(self, secrets: ClusterSecrets) -> None:
        """Use the secrets of a run."""
        self._secrets = secrets

    def is_given(self, name: str) -> bool:
        """Return whether the site gives a secret in `bedplate_secrets`."""
        return name in self._secrets.given.names()

    def require(self, name: str) -> None:
        """Raise SecretError if a secret cannot be turned: it does not exist, or the site gives no new one."""
        if not self._secrets.has(name):
            raise SecretError(f"secret {name}: not found, so no machine can have it. Run playbooks/scheduler.yml first")
        if self.is_given(name):
            if not self.is_given(name + NEXT):
                raise SecretError(
                    f"{VARIABLE}.{name}: the site keeps this secret. Add the new one as {VARIABLE}.{name}{NEXT}"
                )
            if self._secrets.get(name) == self._secrets.get(name + NEXT):
                raise SecretError(f"{VARIABLE}.{name}{NEXT}: the same as {VARIABLE}.{name}; allowed: a new secret")

    def is_promoted(self, name: str) -> bool:
        """Return whether the new secret of an open turn is `<name>` already."""
        return not self.is_given(name) and self._path(name + OLD).exists() and not self._path(name + NEXT).exists()

    def present(self, name: str) -> bytes:
        """Return the secret of the cluster, also beside a former secret of a killed turn."""
        return self._secrets.get(name)

    def old(self, name: str) -> bytes:
        """Return the secret that machines have before the turn."""
        return self._path(name + OLD).read_bytes() if self.is_promoted(name) else self._secrets.get(name)

    def new(self, name: str) -> bytes:
        """Return the secret of the turn; in the secrets directory it is made on first use."""
        if self.is_promoted(name):
            return self._secrets.get(name)
        return self._secrets.get(name + NEXT)

    def promote(self, name: str) -> bool:
        """Make the new secret the one of the cluster; return whether that changed any. The old one stays as `<name>_old`."""
        if self.is_given(name) or self.is_promoted(name):
            return False
        present, following, old = (self._path(name + end) for end in ("", NEXT, OLD))
        try:
            # Both are on record as secrets of this directory, so machines with the old one may be given the new one.
            self._secrets.get(name)
            old.unlink(missing_ok=True)
            os.link(present, old)
            following.replace(present)
            self._secrets.get(name)
        except OSError as error:
            raise SecretError(f"{present}: the new secret was not put into its place: {error.strerror}") from None
        return True

    def forget(self, name: str, end: str) -> None:
        """Remove the old or the new secret of a turn from the secrets directory."""
        if self.is_given(name):
            return
        try:
            self._path(name + end).unlink(missing_ok=True)
        except OSError as error:
            raise SecretError(f"{self._path(name + end)}: cannot be removed: {error.strerror}") from None

    def _path(self, name: str) -> Path:
        return self._secrets.store.directory / name
