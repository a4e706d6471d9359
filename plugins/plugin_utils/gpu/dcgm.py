# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role dcgm brings to a node: the host engine of the variant that the driver needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import table as tables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu.parts import Wanted, deploy, expected

PART = "dcgm"
_ENGINE = "/usr/bin/nv-hostengine"


def deployment(wanted: Wanted) -> dict[str, Any]:
    """Return what to bring to a node; with state absent, where the file wants no DCGM or no longer does, what to take away."""
    if not wanted.file.dcgm:
        return {
            "state": "absent",
            "manager": wanted.manager,
            "service": _service(),
            "driver": wanted.stack.driver,
            **{key: [] for key in ("sources", "packages", "hold", "follow")},
        }
    # Of another name, and in conflict with these: apt removes it in the same transaction, and it is not to come back.
    never = wanted.stack.remove
    return {
        "state": "present",
        "service": _service(),
        "driver": wanted.stack.driver,
        "sources": wanted.sources(PART, never=never),
        "expected": expected(wanted, PART, "dcgm", [_service()]),
        **deploy(wanted, PART),
    }


def _service() -> str:
    return f"{tables.default().dcgm.service}.service"


def units(deployed: Mapping[str, Any], gpu: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the host engine's unit: running where the driver is loaded, for without one it only fails; off where it is to go.

    `gpu` is what bedplate.cluster.gpu_facts returns.
    """
    if deployed["state"] == "absent":
        return [{"name": deployed["service"], "enabled": False, "state": "stopped"}]
    unit: dict[str, Any] = {"name": deployed["service"], "enabled": True}
    if gpu["driver"]["version"] == deployed["driver"]:
        # Its package may not restart it, for it may start nothing.
        unit |= {"state": "started", "restart_after": [_ENGINE]}
    return [unit]
