# SPDX-License-Identifier: GPL-3.0-or-later
"""Text for operators: lists that stay short."""

from __future__ import annotations

from collections.abc import Iterable


def few(names: Iterable[str], most: int = 6) -> str:
    """Return names in a sentence, and how many more there are.

    >>> few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")
