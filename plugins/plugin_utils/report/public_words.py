# SPDX-License-Identifier: GPL-3.0-or-later
"""The one reader of public_words.json: words that a redacted report keeps."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def _table() -> dict[str, list[str]]:
    return dict(json.loads(Path(__file__).with_name("public_words.json").read_text(encoding="utf-8")))


@lru_cache(maxsize=8)
def public_words(key: str) -> frozenset[str]:
    """Return the words of a key of the table, in small letters. KeyError: no such key."""
    return frozenset(word.lower() for word in _table()[key])
