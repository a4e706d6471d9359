# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of an update of bedplate on a real cluster; `make full-update` runs them, and nothing else does."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The lab is no installed package: it is run from the checkout, as `python -m lab`.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.update.updated_cluster import Update, updated


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what boots machines, unless -m names the mark."""
    if "update" in re.findall(r"\w+", str(config.option.markexpr)):
        return
    left_out = [item for item in items if item.get_closest_marker("update")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def update() -> Iterator[Update]:
    """A cluster that the release before built and this one took over, under jobs."""
    with updated() as one:
        yield one
