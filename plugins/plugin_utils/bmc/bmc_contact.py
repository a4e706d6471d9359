# SPDX-License-Identifier: GPL-3.0-or-later
"""Contact many BMCs: prove each certificate first, and log in only then.

A certificate is trusted by the fingerprint on record, or by the CA. Without both, only the fingerprint is read, and no credential is sent,
unless the run records it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..redfish.client import Client
from ..redfish.errors import WRONG_CERTIFICATE, BmcError
from ..redfish.fan_out import Outcome, for_each, for_each_bmc
from ..redfish.transport import Bmc, read_fingerprint
from .bmc_accounts import Accounts
from .bmc_targets import Reach, Target

T = TypeVar("T")


@dataclass(frozen=True)
class Contact(Generic[T]):
    """Result of one BMC: `value`, or the error, or neither at first contact. `fingerprint` is that of a first contact, else ""."""

    node: str
    value: T | None = None
    error: BmcError | None = None
    fingerprint: str = ""


def contact(
    targets: Iterable[Target],
    accounts: Accounts,
    reach: Reach,
    function: Callable[[Client], T],
    *,
    trusts_new: bool = False,
    read_only: bool = True,
) -> dict[str, Contact[T]]:
    """Return node -> result of the function, which is called with an open session; in the order of the targets.

    `trusts_new`: a certificate without a record is trusted at first contact. Otherwise, without a CA, such a BMC has only a fingerprint.
    """
    listed = {one.node: one for one in targets}
    has_new = {node: one for node, one in listed.items() if not one.recorded.bmc_fingerprint and not reach.ca_file}
    first = for_each(
        has_new,
        lambda one: read_fingerprint(one.node, one.address, reach.port, reach.limits.connect_s),
        at_once=reach.at_once,
    )
    found = {node: Contact[T](node, error=one.error, fingerprint=one.value or "") for node, one in first.items()}
    todo = {
        node: found[node].fingerprint if node in found else one.recorded.bmc_fingerprint
        for node, one in listed.items()
        if node not in found or (trusts_new and found[node].fingerprint)
    }
    bmcs = []
    for node, fingerprint in todo.items():
        if account := accounts.accounts.get(node):
            bmcs.append(reach.bmc(listed[node], account, fingerprint))
        else:
            known = found[node].fingerprint if node in found else ""
            found[node] = Contact(node, error=accounts.errors[node], fingerprint=known)
    done = _run(bmcs, reach, function, read_only)
    for node, outcome in done.items():
        found[node] = Contact(node, outcome.value, outcome.error, found[node].fingerprint if node in found else "")
    return {node: found[node] for node in listed}


def _run(bmcs: list[Bmc], reach: Reach, function: Callable[[Client], T], read_only: bool) -> dict[str, Outcome[T]]:
    """Run the function; a BMC whose certificate is not the recorded one is tried once more with the CA, if there is a CA."""
    done = for_each_bmc(bmcs, function, at_once=reach.at_once, read_only=read_only)
    if not reach.ca_file:
        return done
    again = [
        Bmc(one.node, one.address, reach.ca_trust, one.account, one.port, limits=one.limits)
        for one in bmcs
        if one.trust.fingerprint and _has_other_certificate(done[one.node])
    ]
    return {**done, **for_each_bmc(again, function, at_once=reach.at_once, read_only=read_only)} if again else done


def _has_other_certificate(outcome: Outcome[T]) -> bool:
    return outcome.error is not None and outcome.error.kind == WRONG_CERTIFICATE
