# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn a machine on and off, and reset it. The power state is read back; a reset is sent once."""

from __future__ import annotations

import time
from collections.abc import Callable

from .client import Client
from .errors import CUT, TIMEOUT, UNSUPPORTED, BmcError
from .machine import Machine, System
from .machine_reading import read_system
from .read_back import Change, not_taken, poll
from .tasks import finished

ON, OFF, RESET, CYCLE = "on", "off", "reset", "cycle"
WANTED = (ON, OFF, RESET, CYCLE)
_TYPES = {
    ON: ("On", "ForceOn", "PushPowerButton"),
    OFF: ("ForceOff", "PushPowerButton"),
    RESET: ("ForceRestart", "PowerCycle", "GracefulRestart"),
    "graceful": ("GracefulShutdown",),
}
_STATES = {ON: "On", OFF: "Off"}
_CONFLICT = 409


def set_power(client: Client, machine: Machine, wanted: str, *, graceful_s: float = 0.0) -> Change:
    """Reach a power state: `on`, `off`, `reset` (an off machine is turned on), or `cycle` (off, then on, each read back).

    With `graceful_s` the operating system is shut down, and the power ends after so many seconds. `on` and `off` change nothing if the
    machine has the state. Raises BmcError: kind not-taken, unsupported, or of the request.
    """
    if wanted not in WANTED:
        raise ValueError(f"{wanted!r} is not a power state: {', '.join(WANTED)}")
    system = machine.system
    if not system.reset:
        raise client.error(UNSUPPORTED, "the system has no reset action", "Use IPMI for this node.", path=system.path)
    if client.read_only:
        system = read_system(client, system)
        is_change = wanted in (RESET, CYCLE) or system.power != _STATES[wanted]
        return Change(is_change, wanted, system.power, system.path)
    system = _settled(client, system)
    before = system.power
    if system.power == _STATES.get(wanted):
        return Change(False, wanted, before, system.path)
    is_proven = True
    if wanted == RESET and before != "Off":
        is_proven = _reset(client, system)
    elif wanted == OFF:
        _turn_off(client, system, graceful_s)
    else:
        if before != "Off":
            system = _turn_off(client, system, graceful_s)
        _reach(client, system, ON, repeats=machine.dialect.retry_power_conflict)
    return Change(True, wanted, before, system.path, is_proven)


def _settled(client: Client, system: System) -> System:
    """Return the system once its power does not change."""
    return poll(
        client,
        lambda: read_system(client, system),
        lambda found: not found.power.startswith("Powering"),
        client.bmc.limits.power_s,
    )


def _turn_off(client: Client, system: System, graceful_s: float) -> System:
    if graceful_s > 0 and _first(system, "graceful"):
        _send(client, system, _first(system, "graceful"))
        found = poll(client, lambda: read_system(client, system), lambda one: one.power == "Off", graceful_s)
        if found.power == "Off":
            return found
        system = found
    return _reach(client, system, OFF)


def _reach(client: Client, system: System, wanted: str, *, repeats: bool = False) -> System:
    kind, state = _required(client, system, wanted), _STATES[wanted]
    lost = _send_past_conflicts(client, system, kind) if repeats else _send(client, system, kind)
    found = _read_until(client, system, lambda one: one.power == state)
    if found.power != state:
        if lost:
            raise lost
        raise not_taken(
            client, f"reset type {kind}", system.path, f"PowerState {state}", f"PowerState {found.power or 'unknown'}"
        )
    return found


def _reset(client: Client, system: System) -> bool:
    """Reset the running machine. Return whether LastResetTime proves it."""
    kind = _required(client, system, RESET)
    lost = _send(client, system, kind)
    has_time = bool(system.last_reset)

    def is_reset(found: System) -> bool:
        return found.power == "On" and (not has_time or found.last_reset != system.last_reset)

    if lost and not has_time:
        raise lost
    found = _read_until(client, system, is_reset)
    if not is_reset(found):
        if lost:
            raise lost
        expected = f"PowerState On, LastResetTime after {system.last_reset}" if has_time else "PowerState On"
        shown = f"PowerState {found.power or 'unknown'}" + (f", LastResetTime {found.last_reset}" if has_time else "")
        raise not_taken(client, f"reset type {kind}", system.path, expected, shown)
    return has_time


def _read_until(client: Client, system: System, is_taken: Callable[[System], bool]) -> System:
    return poll(client, lambda: read_system(client, system), is_taken, client.bmc.limits.power_s)


def _send(client: Client, system: System, kind: str) -> BmcError | None:
    """Send a reset type once. Return the error if the answer was lost: then only the power state shows whether the BMC obeyed."""
    if system.reset is None:
        raise ValueError(f"{system.path}: no reset action")
    try:
        finished(client, client.post(system.reset.path, {"ResetType": kind}))
    except BmcError as error:
        if error.kind not in (CUT, TIMEOUT):
            raise
        return error
    return None


def _send_past_conflicts(client: Client, system: System, kind: str) -> BmcError | None:
    """Send a reset type, and again while the BMC refuses it for what the machine does just now (HTTP 409). A refused one was not obeyed."""
    until = time.monotonic() + client.bmc.limits.power_s
    while True:
        try:
            return _send(client, system, kind)
        except BmcError as error:
            if error.status != _CONFLICT or time.monotonic() > until:
                raise
        client.pause(client.bmc.limits.post_delay_s)


def _first(system: System, wanted: str) -> str:
    """Return the first reset type that the BMC offers for a purpose; "" without one. A BMC without a list is expected to know the first."""
    types = system.reset.types if system.reset else ()
    usual = _TYPES[wanted]
    return next((one for one in usual if one in types), "") if types else usual[0]


def _required(client: Client, system: System, wanted: str) -> str:
    kind = _first(system, wanted)
    if not kind:
        offered = ", ".join(system.reset.types) if system.reset else ""
        what = f"no reset type for {wanted}; the BMC offers {offered}"
        raise client.error(UNSUPPORTED, what, "Use IPMI for this node.", path=system.path)
    return kind
