# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the CUDA toolkits and NCCL of a node: the values of roles/cuda/parts."""

from __future__ import annotations

from ...parts.decision import Decision
from .. import package_sources
from .part_plan import GpuSoftware, expected, packages

PART = "cuda"


def decide(wanted: GpuSoftware) -> Decision:
    """Return the decision: no packages and no sources where the file names no toolkit and no NCCL, or no longer does."""
    named = wanted.packages(PART)
    sources = wanted.sources(PART) if named else package_sources.none()
    # A distribution's own toolkit is in /usr/bin.
    first = list(wanted.file.cuda[:1]) if wanted.file.source == "nvidia" else []
    return Decision(
        {"cuda": {**sources, **packages(wanted, PART), "first_toolkit": first}},
        {"cuda": expected(wanted, PART, "cuda")} if named else {},
    )
