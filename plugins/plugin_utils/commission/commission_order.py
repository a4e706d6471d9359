# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of a run for all BMCs, and the job of one BMC, which its steps share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..bmc.bmc_targets import Reach, Target
from ..redfish.fan_out import Clients
from .bmc_authority import Authority
from .outcome import NodeResult
from .own_secrets import NodeSecrets, OwnSecrets

Record = Callable[[str, str, str], None]
"""Function of a node, the recorded fingerprint and the new one: write the new one into the record, except in check mode.

Raises BmcError if the record has another one by now, or cannot be written.
"""


@dataclass(frozen=True)
class CommissionOrder:
    """Hold the order: `user` of the own account, `ntp` servers (empty: as they are), `ends_ipmi`, `authority` (None: nothing is signed).

    `days`: validity of a certificate. `may_sign`: the run has a CA, also in check mode, where it may be made later. `organization` and
    `unit`: names in certificates, where the CA has none. `check`: only predict.
    """

    reach: Reach
    user: str = "bedplate"
    ntp: tuple[str, ...] = ()
    ends_ipmi: bool = True
    authority: Authority | None = None
    may_sign: bool = False
    days: int = 1095
    organization: str = "bedplate"
    unit: str = "bedplate"
    check: bool = False


@dataclass
class NodeJob:
    """One BMC of a run: what is ordered, its secrets, the sessions of the run, the writer of the record, and the result so far."""

    target: Target
    order: CommissionOrder
    secrets: OwnSecrets
    known: NodeSecrets
    clients: Clients
    record: Record
    result: NodeResult

    @property
    def node(self) -> str:
        """Return the name of the machine."""
        return self.target.node

    @property
    def user(self) -> str:
        """Return the name of the own account."""
        wanted = self.known.wanted
        return wanted.user if wanted else self.order.user
