# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the table of the register that RoCE NICs retransmit by."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def table() -> dict[str, Any]:
    """Return the table."""
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return found


def settings() -> dict[str, Any]:
    """Return what a node needs to turn the fields off: register, fields, and the field that keeps all of them."""
    return {key: table()[key] for key in ("register", "fields", "unless")}
