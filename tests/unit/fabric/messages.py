"""The sentences of the fabric stand once, in sentences.txt; tests/kit/sentences.py says how they are renewed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.kit import sentences

FILE = Path(__file__).with_name(sentences.NAME)


def check_messages(case: str, lines: Iterable[object] | BaseException, scratch: Path | None = None) -> None:
    """Compare messages, or that of an error, with the snapshot; a scratch directory and lines of files in it are no part of them."""
    texts = [str(lines)] if isinstance(lines, BaseException) else [str(one) for one in lines]
    if scratch:
        texts = [re.sub(rf"{re.escape(str(scratch))}/([^\s:]+)(?::\d+\b)?", r"\1", one) for one in texts]
    sentences.check(FILE, case, texts)
