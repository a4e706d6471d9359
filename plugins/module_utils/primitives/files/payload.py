# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack files for a node into one opaque string, so that Ansible can mask all of it and nothing else."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

from .file_plan import DesiredFile


def pack(files: Sequence[DesiredFile]) -> str:
    """Return the files as one string."""
    rows = [_row(entry) for entry in files]
    return base64.b64encode(zlib.compress(json.dumps(rows).encode(), 3)).decode()


def unpack(payload: str) -> list[DesiredFile]:
    """Return the files of a packed string."""
    rows = json.loads(zlib.decompress(base64.b64decode(payload)))
    return [DesiredFile(**{**row, "content": _content(row["content"])}) for row in rows]


def _row(entry: DesiredFile) -> dict[str, Any]:
    row: dict[str, Any] = dict(vars(entry))
    try:
        row["content"] = entry.content.decode("utf-8")
    except UnicodeDecodeError:
        row["content"] = {"base64": base64.b64encode(entry.content).decode()}
    return row


def _content(value: Any) -> bytes:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()
