# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the jobs that the prolog passed without a judgement: it appends a line with the cause for each, such as `stale`."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

FILE = "passed"
LARGEST = 1 << 18
"""Bytes from which the file is emptied: its counters begin again, which Prometheus takes for a restart."""
_CAUSE = re.compile(r"[a-z][a-z-]{0,19}\Z")
_MOST_CAUSES = 16


def counted(path: Path) -> dict[str, int]:
    """Return cause -> number of jobs. A line that is not a cause counts as `other`."""
    try:
        with path.open("rb") as stream:
            lines = stream.read(LARGEST).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    found = Counter(line if _CAUSE.match(line) else "other" for line in lines)
    common = dict(found.most_common(_MOST_CAUSES))
    hidden = sum(found.values()) - sum(common.values())
    return {**common, "other": common.get("other", 0) + hidden} if hidden else common


def empty_if_large(path: Path) -> None:
    """Empty a file that is too large; the prolog appends, so no line is torn."""
    with suppress(OSError):
        if path.stat().st_size > LARGEST:
            with path.open("r+b") as stream:
                stream.truncate(0)
