# SPDX-License-Identifier: GPL-3.0-or-later
"""Read resources of a live BMC in the form that `resources` and `profiles` read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .client import Client
from .resources.reader import Get, MissingResourceError


def reader_of(client: Client) -> Get:
    """Return a reader of a BMC that reads each path once. Make a new reader to read again after a write.

    The reader raises MissingResourceError for a path that the BMC does not have, and BmcError for all other failures.
    """
    known: dict[str, Mapping[str, Any] | None] = {}

    def get(path: str) -> Mapping[str, Any]:
        if path not in known:
            answer = client.find(path)
            known[path] = answer.body if answer else None
        found = known[path]
        if found is None:
            raise MissingResourceError(path)
        return found

    return get
