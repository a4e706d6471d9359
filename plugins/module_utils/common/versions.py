# SPDX-License-Identifier: GPL-3.0-or-later
"""Match versions of packages as the tables and the cluster file write them: exact, or a pattern that ends with *."""

from __future__ import annotations


def matches(version: str, wanted: str) -> bool:
    """Return whether a version equals `wanted`, or matches it if it ends with *; "" matches any version.

    >>> [matches("580.126.09-1", one) for one in ("580.126.09-1", "580.126.09-*", "580.126", "580.12-*", "*", "")]
    [True, True, False, False, True, True]
    """
    if wanted == "":
        return True
    return version.startswith(wanted[:-1]) if wanted.endswith("*") else version == wanted


def without_epoch(version: str) -> str:
    """Return a version without its epoch.

    >>> without_epoch("3:580.126.09-1"), without_epoch("580.126.09-1")
    ('580.126.09-1', '580.126.09-1')
    """
    return version.partition(":")[2] or version
