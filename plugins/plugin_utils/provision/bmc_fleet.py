# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one step on the BMCs of many machines, in threads. A failure is its machine's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..bmc.bmc_accounts import Accounts
from ..bmc.bmc_contact import contact
from ..bmc.bmc_targets import Reach
from ..redfish.client import Client
from .bmc_steps import BmcJob

T = TypeVar("T")


@dataclass(frozen=True)
class Done(Generic[T]):
    """Result of one machine: `value`, or `error`, the reason without secrets; "" without an error."""

    value: T | None = None
    error: str = ""


class Fleet:
    """The BMCs of a run, with their accounts and limits."""

    def __init__(self, accounts: Accounts, reach: Reach) -> None:
        """Take accounts and limits."""
        self._accounts, self._reach = accounts, reach

    def each(
        self,
        jobs: Mapping[str, BmcJob],
        function: Callable[[Client, BmcJob], T],
        *,
        read_only: bool = False,
        at_once: int = 0,
    ) -> dict[str, Done[T]]:
        """Return node -> result of a function, which is called with an open session. With `read_only` it sends GETs alone.

        `at_once` bounds the machines further than the limits of the run; 0 does not.
        """
        if not jobs:
            return {}
        found = contact(
            [job.target for job in jobs.values()],
            self._accounts,
            self._reach.at_most(at_once) if at_once else self._reach,
            lambda client: function(client, jobs[client.bmc.node]),
            read_only=read_only,
        )
        done = dict[str, Done[T]]()
        for node, one in found.items():
            if one.error is None and one.value is None and one.fingerprint:
                what = f"the certificate of its BMC is not on record; its SHA-256 is {one.fingerprint}"
                done[node] = Done(error=f"{what}. Run bmc_discover.yml -e bmc_record=true first.")
            else:
                text = str(one.error).removeprefix(f"{node}: ") if one.error else ""
                # The URL of a medium is the key to it.
                url = jobs[node].url
                done[node] = Done(one.value, text.replace(url, "its medium") if url else text)
        return done
