# SPDX-License-Identifier: GPL-3.0-or-later
"""Connect bedplate's client to simulated BMCs, with short delays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Bmc, Limits, Trust
from tests.kit.bmc.simulation import Simulated

FAST = Limits(
    connect_s=5,
    answer_s=10,
    first_delay_s=0.02,
    longest_delay_s=0.2,
    post_delay_s=0.05,
    patience_s=5,
    task_s=5,
    poll_s=0.02,
    settle_s=0.3,
    power_s=1.5,
    close_s=3,
)
"""Limits with which a test of a fault takes less than a second or two."""


def bmc_of(simulated: Simulated, *, by_ca: bool = False, **limits: Any) -> Bmc:
    """Return the address of a simulated BMC for the client: trusted by its fingerprint, or by the CA."""
    trust = Trust(ca_file=str(simulated.ca_file)) if by_ca else Trust(fingerprint=simulated.fingerprint)
    account = Account(simulated.user, simulated.password)
    return Bmc(simulated.node, simulated.address, trust, account, simulated.port, limits=replace(FAST, **limits))
