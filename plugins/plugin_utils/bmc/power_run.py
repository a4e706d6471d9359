# SPDX-License-Identifier: GPL-3.0-or-later
"""Reach a power state on many nodes. Each machine is identified before its power changes, and its state is read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...module_utils.common.hostlist import fold
from ..redfish import ipmi, power
from ..redfish.client import Client
from ..redfish.errors import BmcError
from ..redfish.fan_out import for_each
from ..redfish.machine import Machine
from ..redfish.machine_reading import read_machine
from ..redfish.power import CYCLE
from ..redfish.read_back import Change
from .bmc_accounts import Accounts
from .bmc_contact import Contact, contact
from .bmc_targets import IPMI, REDFISH, Reach, Target
from .found_machine import serial_of

NOT_ALLOWED = "not-allowed"
"""Kind of an error: the machine is not the declared one, or its state forbids the change."""
_DISCOVER = "Run bmc_discover.yml"


@dataclass(frozen=True)
class PowerOrder:
    """A power state for nodes: `wanted` on, off or cycle; seconds for a shutdown before the power ends; `read_only`: predict."""

    wanted: str
    graceful_s: float = 0.0
    read_only: bool = False


@dataclass(frozen=True)
class PowerResult:
    """Result of one node: the change, or the error."""

    change: Change | None = None
    error: BmcError | None = None


def run(targets: Mapping[str, Target], accounts: Accounts, reach: Reach, order: PowerOrder) -> dict[str, PowerResult]:
    """Return node -> result, in the order of the targets. A node's failure does not stop the others."""
    redfish = {node: one for node, one in targets.items() if one.protocol == REDFISH}
    others = {node: one for node, one in targets.items() if one.protocol == IPMI}
    contacts = contact(
        redfish.values(),
        accounts,
        reach,
        lambda client: _redfish(client, redfish[client.bmc.node], order),
        read_only=order.read_only,
    )
    found = {node: PowerResult(one.value, one.error or _first_contact(one)) for node, one in contacts.items()}
    done = for_each(others, lambda one: _ipmi(one, accounts, reach, order), at_once=reach.at_once)
    found.update((node, PowerResult(one.value, one.error)) for node, one in done.items())
    return {node: found[node] for node in targets}


def _first_contact(found: Contact[Change]) -> BmcError | None:
    """Return the error for a BMC whose certificate nothing proves."""
    if found.value is not None:
        return None
    what = f"its certificate is not on record; its SHA-256 is {found.fingerprint}"
    return BmcError(NOT_ALLOWED, found.node, what, f"{_DISCOVER} -e bmc_record=true first.")


def _redfish(client: Client, target: Target, order: PowerOrder) -> Change:
    machine = read_machine(client, serial=target.recorded.serial, only=())
    require_identity(client.error, target, machine)
    if order.wanted == CYCLE and machine.power == "Off":
        raise _is_off(client.error)
    return power.set_power(client, machine, order.wanted, graceful_s=order.graceful_s)


def _ipmi(target: Target, accounts: Accounts, reach: Reach, order: PowerOrder) -> Change:
    """Reach a power state by IPMI, which does not show who answers."""
    node = target.node
    if node in accounts.errors:
        raise accounts.errors[node]
    bmc = reach.ipmi(target, accounts.accounts[node])
    if order.wanted == CYCLE and ipmi.read_power(bmc) == "off":
        raise _is_off(lambda kind, what, remedy: BmcError(kind, node, what, remedy))
    return ipmi.set_power(bmc, order.wanted, read_only=order.read_only)


def require_identity(error: Callable[[str, str, str], BmcError], target: Target, machine: Machine) -> None:
    """Raise an error of kind not-allowed unless the machine has the serial number on record."""
    recorded, found = target.recorded.serial, serial_of(machine)
    if not recorded:
        what = f"the machine at {target.address} is not on record; its serial number is {found or 'not shown'}"
        raise error(NOT_ALLOWED, what, f"{_DISCOVER} -e bmc_record=true first.")
    if not machine.is_serial(recorded):
        what = (
            f"another machine answers at {target.address}: serial number {recorded} on record, {found or 'none'} found"
        )
        raise error(NOT_ALLOWED, what, f"{_DISCOVER}, and correct the cables or the record.")


def _is_off(error: Callable[[str, str, str], BmcError]) -> BmcError:
    return error(NOT_ALLOWED, "the machine is off, so there is no power to cycle", "Use -e power=on.")


def summary(results: Mapping[str, PowerResult], order: PowerOrder) -> str:
    """Return the result as text: nodes by what happened as hostlists, and a line for each error."""
    groups: dict[str, list[str]] = {}
    for node, one in results.items():
        if one.change:
            groups.setdefault(_outcome(one.change, order), []).append(node)
    text = [f"{fold(names)}: {outcome}" for outcome, names in groups.items()]
    errors: dict[str, list[str]] = {}
    for node, one in results.items():
        if one.error:
            errors.setdefault(str(one.error).removeprefix(f"{node}: "), []).append(node)
    return "\n".join([*text, *(f"{fold(names)}: {error}" for error, names in errors.items())])


def _outcome(change: Change, order: PowerOrder) -> str:
    if not change.changed:
        return f"is {change.before.lower()}"
    verb = "would change" if order.read_only else "changed"
    return f"{verb} from {change.before.lower() or 'unknown'} to {'off, then on' if order.wanted == CYCLE else order.wanted}"


def states(results: Mapping[str, PowerResult], order: PowerOrder, *, after: bool) -> str:
    """Return a line for each changed node with its state before or after, for a diff."""
    return "".join(
        f"{node}: {(order.wanted if after else one.change.before.lower())}\n"
        for node, one in results.items()
        if one.change and one.change.changed
    )
