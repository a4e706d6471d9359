# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of a task with bedplate.cluster.deploy as one value: each template of a task is compiled anew for every host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYS = ("state", "manager", "sources", "packages", "hold", "follow", "files", "units")


def arguments(told: Mapping[str, Any], manifest: str, **more: Any) -> dict[str, Any]:
    """Return the arguments, of what a role brings; `more` are further ones.

    >>> arguments({"files": [], "expected": {}}, "cuda", start_installed=False)
    {'manifest': 'cuda', 'files': [], 'start_installed': False}
    """
    return {"manifest": manifest, **{key: told[key] for key in _KEYS if key in told}, **more}
