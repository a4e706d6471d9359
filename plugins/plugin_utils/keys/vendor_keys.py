# SPDX-License-Identifier: GPL-3.0-or-later
"""The one reader of vendor_keys.json: the keys with which owners sign their repositories."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class VendorKey:
    """A key of a repository, by its names in stack.json. One of `fingerprint` and `ends` is set; `ends` are its last digits."""

    repository: str
    owner: str
    systems: tuple[str, ...]
    fingerprint: str
    ends: str
    verified: bool

    def fits(self, fingerprint: str) -> bool:
        """Return whether this may be the key with a fingerprint."""
        return fingerprint == self.fingerprint if self.fingerprint else fingerprint.endswith(self.ends)


@lru_cache(maxsize=1)
def table() -> tuple[VendorKey, ...]:
    """Return all rows, read once."""
    data = json.loads(Path(__file__).with_name("vendor_keys.json").read_text(encoding="utf-8"))
    return tuple(
        VendorKey(
            row["repository"],
            row["owner"],
            tuple(row["systems"]),
            row.get("fingerprint", ""),
            row.get("ends", ""),
            row["verified"],
        )
        for row in data["keys"]
    )


def key_of(repository: str, system: str) -> VendorKey | None:
    """Return the key of a repository for a system; None if it is not known."""
    return next((row for row in table() if row.repository == repository and system in row.systems), None)
