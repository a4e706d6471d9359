# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of scenarios that take minutes: one marked `full_in("gpu")` runs in `make full-gpu`, which sets BEDPLATE_FULL=gpu, alone."""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a full target runs."""
    area = os.environ.get("BEDPLATE_FULL")
    left_out = [item for item in items if any(mark.args != (area,) for mark in item.iter_markers("full_in"))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
