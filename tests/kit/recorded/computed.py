# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that follow from the cluster file, such as what a node has on record of the run before."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import managers


def opensm_proved(folder: Path) -> list[dict[str, Any]]:
    """Return the answer of hosts that have the digest of what was proved."""
    (path,) = folder.glob("*.bedplate.yml")
    digest = managers.proof(load(str(path)), {"routing_engines": [], "no_fallback": False, "options": {}})["digest"]
    content = base64.b64encode(f"{digest}\n".encode()).decode()
    return [{"module": "slurp", "result": {"changed": False, "content": content, "encoding": "base64"}}]


ANSWERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {"opensm_proved": opensm_proved}
