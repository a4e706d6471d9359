# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the CUDA toolkits, NCCL and GPUDirect's modules of a node: the values of roles/cuda/parts."""

from __future__ import annotations

from typing import Any

from ...parts.decision import Decision, Step
from .. import package_sources
from .part_plan import GpuSoftware, expected, packages

PART = "cuda"
_UNIT = "bedplate-gpudirect.service"


def decide(wanted: GpuSoftware) -> Decision:
    """Return the decision: no packages and no sources where the file names no toolkit and no NCCL, or no longer does."""
    named, modules = wanted.packages(PART), wanted.stack.gpudirect
    sources = wanted.sources(PART) if named else package_sources.none()
    # A distribution's own toolkit is in /usr/bin.
    first = list(wanted.file.cuda[:1]) if wanted.file.source == "nvidia" else []
    values = {
        **sources,
        **packages(wanted, PART),
        "first_toolkit": first,
        "driver": wanted.stack.driver,
        "modules_load": ["".join(f"{one.module}\n" for one in modules)] if modules else [],
    }
    names = [one.dkms for one in modules if one.dkms]
    build = Step("bedplate.cluster.dkms_rebuild", {"modules": names, "driver": wanted.stack.driver})
    return Decision(
        {"cuda": values},
        {"cuda": expected(wanted, PART, "cuda", [_UNIT] if modules else [])} if named or modules else {},
        {"gpudirect_build": [build]} if names else {},
    )


def gpudirect(wanted: GpuSoftware) -> dict[str, Any]:
    """Return what is compared of GPUDirect's modules; {} without any."""
    modules = wanted.stack.gpudirect
    if not modules:
        return {}
    return {
        "modules": {one.module: one.loaded for one in modules},
        "devices": [one.device for one in modules if one.device],
        "dkms": [one.dkms for one in modules if one.dkms],
    }
