# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove a BMC by its certificate before any password is sent, find out which account it accepts, and identify the machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..bmc.bmc_targets import Reach, Target
from ..bmc.power_run import NOT_ALLOWED, require_identity
from ..redfish.client import Client
from ..redfish.errors import NOT_TAKEN, REFUSED, UNSUPPORTED, WRONG_CERTIFICATE, BmcError
from ..redfish.fan_out import Clients
from ..redfish.fields import Resource, link
from ..redfish.live_reader import reader_of
from ..redfish.machine_reading import read_machine
from ..redfish.resources import dialects
from ..redfish.resources.dialects import Dialect
from ..redfish.resources.evidence import SystemChoiceError
from ..redfish.transport import Account, Bmc, Trust, read_fingerprint

_TRIES = 3
_NOBODY = Account("nobody", "-")


@dataclass(frozen=True)
class Identified:
    """A machine with the serial number on record: how its BMC differs from the standard, and the resource of its manager."""

    dialect: Dialect
    manager: Resource


def proved(target: Target, reach: Reach, issued: Iterable[str]) -> Bmc:
    """Return the BMC with the trust that proves it. No request and no credential is sent.

    Trusted are the fingerprint on record; after a killed run, a certificate of the CA that was signed for this BMC (`issued`); and without
    a record, a certificate of the CA. Another one is an error: kind wrong-certificate or not-allowed.
    """
    found = read_fingerprint(target.node, target.address, reach.port, reach.limits.connect_s)
    recorded = target.recorded.bmc_fingerprint
    if found == recorded:
        return reach.bmc(target, _NOBODY, recorded)
    if reach.ca_file and (found in tuple(issued) or not recorded):
        return replace(reach.bmc(target, _NOBODY, found), trust=reach.ca_trust)
    if recorded:
        remedy = (
            "Find out who changed the certificate. If that is right, remove bmc_fingerprint from its line in the record, and run "
            "bmc_discover.yml -e bmc_record=true."
        )
        what = "its certificate is not the recorded one"
        raise BmcError(WRONG_CERTIFICATE, target.node, what, remedy, expected=recorded, found=found)
    what = f"its certificate is not on record; its SHA-256 is {found}"
    raise BmcError(NOT_ALLOWED, target.node, what, "Run bmc_discover.yml -e bmc_record=true first.")


def accepts(clients: Clients, bmc: Bmc, account: Account) -> bool:
    """Return whether a BMC accepts an account. An account that must change its password first is accepted.

    Raises BmcError for every other failure: then it is not known.
    """
    try:
        with clients.session(replace(bmc, account=account)) as client:
            # Without a SessionService only a request shows whether the account is accepted.
            client.get(link(client.root.body if client.root else {}, "Systems") or "/redfish/v1/Systems")
    except BmcError as error:
        if error.needs_new_password:
            return True
        if error.kind == REFUSED:
            return False
        raise
    return True


def first_accepted(clients: Clients, bmc: Bmc, accounts: Iterable[Account]) -> Account:
    """Return the first account that the BMC accepts. Raises BmcError of kind refused if it accepts none."""
    known = list(accounts)
    for account in known:
        if accepts(clients, bmc, account):
            return account
    users = ", ".join(dict.fromkeys(one.user for one in known))
    what = f"the BMC refuses all known accounts: {users}" if users else "no account to try"
    remedy = f"Write its account into the secret bmc/{bmc.node}, or the factory's into bmc_factory: USER:PASSWORD on one line."
    raise BmcError(REFUSED, bmc.node, what, remedy)


def require_accepted(clients: Clients, bmc: Bmc, account: Account, path: str) -> None:
    """Prove by logins that a BMC has taken a password. Raises BmcError of kind not-taken."""
    for left in reversed(range(_TRIES)):
        if accepts(clients, bmc, account):
            return
        if left:
            clients.stop.wait(bmc.limits.settle_s / _TRIES)
    what = f"the password of {account.user} was accepted and not taken"
    remedy = "Read the log of the BMC; it may have rules for passwords. Run again."
    expected, found = f"a login of {account.user}", "a refused login"
    raise BmcError(NOT_TAKEN, bmc.node, what, remedy, path=path, expected=expected, found=found)


def identified(client: Client, target: Target) -> Identified:
    """Return the machine with the serial number on record. Raises BmcError: kind not-allowed for another machine, and without a record."""
    require_identity(client.error, target, read_machine(client, serial=target.recorded.serial, only=()))
    try:
        evidence, dialect = dialects.read(reader_of(client), target.recorded.serial)
    except (SystemChoiceError, LookupError) as error:
        raise client.error(UNSUPPORTED, str(error).rstrip("."), "Report the model of this BMC.") from None
    if not evidence.managers:
        raise client.error(UNSUPPORTED, "no manager of this system", "Report the model of this BMC.")
    return Identified(dialect, evidence.managers[0])


def needs_new_password(client: Client, target: Target) -> BmcError | None:
    """Return the BMC's refusal to do anything before the account has a new password, None without one.

    Then the serial number cannot be read. Only the fingerprint on record proves the machine, and without one the refusal is raised.
    """
    try:
        client.get(link(client.root.body if client.root else {}, "Systems") or "/redfish/v1/Systems")
    except BmcError as error:
        if not error.needs_new_password:
            raise
        if client.bmc.trust != Trust(target.recorded.bmc_fingerprint or "0" * 64) or not target.recorded.serial:
            what = "the account needs a new password before the machine can be identified, and nothing on record proves the BMC"
            remedy = "Record serial and bmc_fingerprint of this machine, or change the password on the BMC's own page."
            raise client.error(NOT_ALLOWED, what, remedy, messages=error.messages) from None
        return error
    return None
