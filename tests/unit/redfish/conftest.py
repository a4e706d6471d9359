# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated BMCs for all tests of the room: one process for each worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Bmc
from tests.kit.bmc.connect import bmc_of
from tests.kit.bmc.simulation import Simulated, Simulation

Made = Callable[..., tuple[Simulated, Bmc]]


@pytest.fixture(scope="package")
def simulation() -> Iterator[Simulation]:
    with Simulation() as running:
        yield running


@pytest.fixture
def make(simulation: Simulation) -> Made:
    """Return a function that starts a BMC with attributes of its spec, and returns it with its address for the client."""

    def made(limits: dict[str, Any] | None = None, **spec: Any) -> tuple[Simulated, Bmc]:
        simulated = simulation.add(**spec)
        return simulated, bmc_of(simulated, **(limits or {}))

    return made
