# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role dcgm brings to a node: the host engine of the variant that the driver needs."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.driver_facts import VERSION_FILE

from ...common.deploy_arguments import arguments
from .. import stack_table
from .part_plan import GpuSoftware, deploy, expected

PART = "dcgm"
_ENGINE = "/usr/bin/nv-hostengine"


def deployment(wanted: GpuSoftware) -> dict[str, Any]:
    """Return what to bring to a node; with state absent, where the file wants no DCGM or no longer does, what to take away."""
    told = _told(wanted)
    return {**told, "deploy": arguments(told, "dcgm", start_installed=False)}


def _told(wanted: GpuSoftware) -> dict[str, Any]:
    if not wanted.file.dcgm:
        return {
            "state": "absent",
            "manager": wanted.manager,
            "units": [{"name": _service(), "enabled": False, "state": "stopped"}],
            **{key: [] for key in ("sources", "packages", "hold", "follow")},
        }
    # Of another name, and in conflict with these: apt removes it in the same transaction, and it is not to come back.
    never = wanted.stack.remove
    return {
        "state": "present",
        "units": _units(wanted.stack.driver),
        "sources": wanted.sources(PART, never=never),
        "expected": expected(wanted, PART, "dcgm", [_service()]),
        **deploy(wanted, PART),
    }


def _service() -> str:
    return f"{stack_table.default().dcgm.service}.service"


def _units(driver: str) -> list[dict[str, Any]]:
    """Return the host engine's unit: running where this driver is loaded, for without one it only fails."""
    return [
        {
            "name": _service(),
            "enabled": True,
            "state": "started",
            "state_where": {"path": f"/{VERSION_FILE}", "content": driver},
            # Its package may not restart it, for it may start nothing.
            "restart_after": [_ENGINE],
        }
    ]
