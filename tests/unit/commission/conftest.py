# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated BMCs for all tests of the room: one process for each worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.bmc.simulation import Simulation
from tests.unit.commission.commissioned_site import CommissionedSite, Made


@pytest.fixture(scope="package")
def simulation() -> Iterator[Simulation]:
    with Simulation() as running:
        yield running


@pytest.fixture
def make(tmp_path: Path, simulation: Simulation) -> Made:
    """Return a function that makes a site of nodes with attributes of their spec."""

    def made(*nodes: str, **spec: object) -> CommissionedSite:
        return CommissionedSite(tmp_path, simulation, nodes or ("gpu01",), **spec)

    return made
