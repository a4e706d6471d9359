# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace `auto` and null of the role's variables by what nodes with such GPUs get: the rows of node_defaults.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import owned, parse

from ..cluster import Profile
from ..gpu_rows import site_rows
from ..gpu_rows.site_rows import NO_ROWS


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """Return the rows of the table."""
    table = json.loads(Path(__file__).with_name("node_defaults.json").read_text(encoding="utf-8"))
    return tuple(table["rows"])


def model(profile: Profile) -> str:
    """Return the GPU of a profile as `gpu_stack` names it; "" without GPUs."""
    return (profile.gpu_stack and profile.gpu_stack.model) or (profile.gpus.model if profile.gpus else "")


def is_arm(profile: Profile) -> bool:
    """Return whether the CPUs of a profile are arm64, by its GPUs."""
    rows = profile.gpu_stack.rows if profile.gpu_stack else NO_ROWS
    found = site_rows.table_with(rows).models.get(model(profile))
    return found is not None and found.architecture == "arm64"


def default(setting: str, profile: Profile) -> Any:
    """Return the value of a setting on the nodes of a profile; None where bedplate leaves it to the machine."""
    if profile.gpus is None:
        return None
    architecture = "arm64" if is_arm(profile) else "x86_64"
    for row in rows():
        fits = row.get("architecture", architecture) == architecture and model(profile) in row.get(
            "models", [model(profile)]
        )
        if row["setting"] == setting and fits:
            return row["value"]
    return None


def resolved(profile: Profile, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the role's variables with a value in place of `auto` and null.

    A token of the site has precedence: no default adds a second token with its key.
    """
    site = owned(parse(choices["cmdline"]))
    found = dict(choices)
    clears = choices["init_on_alloc"]
    if clears is None:
        clears = "init_on_alloc" in site or default("init_on_alloc", profile) is not False
    found["init_on_alloc"] = clears
    found["intel_iommu"] = (
        choices["iommu"] == "passthrough" and "intel_iommu" not in site and bool(default("intel_iommu", profile))
    )
    idle = default("idle_us", profile) if choices["idle_us"] == "auto" else choices["idle_us"]
    found["idle_us"] = None if idle in (None, "", "keep") else int(idle)
    for name in ("bridge_power", "relaxed_ordering"):
        found[name] = default(name, profile) if choices[name] == "auto" else None
    return found
