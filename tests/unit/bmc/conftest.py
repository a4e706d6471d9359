# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated BMCs for all tests of the room: one process for each worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.bmc.simulation import Simulation
from tests.unit.bmc.site import Site


@pytest.fixture(scope="package")
def simulation() -> Iterator[Simulation]:
    with Simulation() as running:
        yield running


@pytest.fixture
def site(tmp_path: Path, simulation: Simulation) -> Site:
    return Site(tmp_path, simulation)
