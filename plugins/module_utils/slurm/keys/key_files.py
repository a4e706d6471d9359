# SPDX-License-Identifier: GPL-3.0-or-later
"""A key of this machine and the staged key beside it: compare both by keyed digests, and replace the one by the other."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ...common.files import atomic_write
from ...primitives.files import manifest

STAGED = ".next"
"""What the name of a staged key ends with."""
_LABEL = b"bedplate key of a turn:"


class KeyTurnError(Exception):
    """A key that cannot be replaced; the text is for an operator."""


def fingerprint(key: bytes, salt: str) -> str:
    """Return a digest of a key that may be shown: without the salt it cannot be compared with another one.

    >>> fingerprint(b"a key", "one") == fingerprint(b"a key", "two")
    False
    """
    return hmac.new(key, _LABEL + salt.encode(), hashlib.sha256).hexdigest()[:32]


@dataclass(frozen=True)
class KeyFiles:
    """The key at `path`, and where bedplate records its files."""

    path: Path
    state_directory: Path

    @property
    def staged(self) -> Path:
        """The path of the staged key."""
        return self.path.with_name(self.path.name + STAGED)

    def prints(self, salt: str) -> dict[str, str]:
        """Return the fingerprints of the present and the staged key; "" for a file that does not exist."""
        return {"present": self._print(self.path, salt), "staged": self._print(self.staged, salt)}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of bedplate's files, so that no other run writes the key meanwhile. Raises KeyTurnError."""
        try:
            with manifest.locked(self.state_directory, create=True):
                yield
        except manifest.NodeFilesError as error:
            raise KeyTurnError(str(error)) from None

    def is_pending(self, expected: str, salt: str) -> bool:
        """Return whether the staged key must still replace the present one. Raises KeyTurnError if it is not the expected one."""
        if self._print(self.path, salt) == expected:
            return False
        found = self._print(self.staged, salt)
        if found != expected:
            what = "is not the staged key of this turn" if found else "not found"
            raise KeyTurnError(f"{self.staged}: {what}. {self.path} was not changed. Run playbooks/turn_keys.yml again")
        return True

    def put(self) -> None:
        """Replace the present key by the staged one, which stays: its daemon may still start with it. Call it with the lock.

        The record of bedplate's files comes first: the next ordinary run then finds the key as it wants it, and changes nothing.
        """
        try:
            data, attributes = self.staged.read_bytes(), self.staged.stat()
            records = manifest.load(self.state_directory)
            if found := records.get(str(self.path)):
                records[str(self.path)] = replace(found, sha256=manifest.digest(data))
                manifest.save(self.state_directory, records)
            mode, owner = attributes.st_mode & 0o7777, (attributes.st_uid, attributes.st_gid)
            atomic_write(self.path, data, mode=mode, owner=owner)
        except (OSError, manifest.NodeFilesError) as error:
            raise KeyTurnError(f"{self.path}: not replaced by the staged key: {error}") from None

    @staticmethod
    def _print(path: Path, salt: str) -> str:
        try:
            return fingerprint(path.read_bytes(), salt)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise KeyTurnError(f"{path}: cannot be read: {error.strerror}") from None
