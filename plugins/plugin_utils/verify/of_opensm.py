# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on the subnet managers as findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.filter.opensm import opensm_verdict
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding, from_json


def verdict(path: str, results: Mapping[str, Mapping[str, Any]]) -> tuple[list[Finding], str]:
    """Return the findings of all subnet managers, and what to say where there are none.

    `results` are those of bedplate.cluster.node_state by host, unreachable ones too.
    """
    told = {host: result.get("opensm") or {"unreachable": True} for host, result in results.items()}
    choices: dict[str, Any] = next((one["choices"] for one in told.values() if "choices" in one), {})
    judged = opensm_verdict(path, told, choices)
    return [replace(one, kind=f"opensm-{one.kind}") for one in from_json(judged["findings"])], judged["summary"]
