# SPDX-License-Identifier: GPL-3.0-or-later
"""Set and clear the boot override, and read it back: at the settings object too, if the BMC has one with Boot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from . import http_boot_uri
from .client import Answer, Client
from .errors import UNSUPPORTED, BmcError
from .machine import Boot, Machine
from .machine_reading import read_system
from .machine_resources import boot_of
from .read_back import Change, not_taken, write_until_taken
from .resources.dialects import BIOS_ATTRIBUTE, VIRTUAL_CD_ONLY_BY_ATTRIBUTES
from .tasks import finished

CD, HTTP, PXE = "Cd", "UefiHttp", "Pxe"
_UEFI = "UEFI"
_MODE = "BootSourceOverrideMode"


@dataclass(frozen=True)
class Override:
    """One-time boot: `target` as the BMC names it, `mode` UEFI or Legacy, `uri` for UefiHttp."""

    target: str
    mode: str = _UEFI
    uri: str = ""

    def __post_init__(self) -> None:
        if (self.target == HTTP) != bool(self.uri):
            raise ValueError("UefiHttp needs a URI, and other targets must not have one")

    def __str__(self) -> str:
        return " ".join(one for one in ("Once", self.target, self.mode, self.uri) if one)


@dataclass(frozen=True)
class Shown:
    """Boot override in both places: `now` in the system, `pending` in the settings object (None without one), with their ETags."""

    now: Boot
    pending: Boot | None
    now_etag: str = ""
    pending_etag: str = ""

    def __str__(self) -> str:
        return f"{self.now}; settings object {self.pending}" if self.pending else str(self.now)


_Body = Callable[[Shown], dict[str, str]]
_IsTaken = Callable[[Shown], bool]


def shown_in(machine: Machine) -> Shown:
    """Return the boot override as it was when the machine was read."""
    return Shown(machine.system.boot or Boot(), machine.pending, machine.system.etag, machine.pending_etag)


def read_override(client: Client, machine: Machine) -> Shown:
    """Return the boot override of the system, and of its settings object."""
    system = read_system(client, machine.system)
    pending = client.find(machine.system.settings_path) if machine.system.settings_path and machine.pending else None
    found = boot_of(pending.body) if pending else None
    return Shown(system.boot or Boot(), found, system.etag, pending.etag if pending else "")


def target_of(machine: Machine, target: str) -> str:
    """Return the boot target as this BMC names it."""
    return machine.dialect.cd_target if target == CD else target


def set_override(client: Client, machine: Machine, wanted: Override) -> Change:
    """Let the next boot, and only that one, be from `wanted`.

    The machine must be read with PENDING. Raises BmcError: kind unsupported if the BMC does not offer it, not-taken if it does not show.
    """
    boot = machine.pending or machine.system.boot
    if boot is None:
        raise client.error(
            UNSUPPORTED, "the system has no boot override", "Use IPMI for this node.", path=machine.system.path
        )
    in_bios = machine.dialect.http_boot == BIOS_ATTRIBUTE
    goal = Boot("Once", target_of(machine, wanted.target), wanted.mode, "" if in_bios else wanted.uri)
    _check(client, machine, boot, goal)
    is_new_uri = bool(wanted.uri) and in_bios and http_boot_uri.set_uri(client, machine, wanted.uri)

    def is_taken(found: Shown) -> bool:
        return _is(found.pending or found.now, goal)

    change = _apply(client, machine, shown_in(machine), str(wanted), lambda _shown: _body(machine, goal), is_taken)
    return replace(change, changed=True) if is_new_uri else change


def clear_override(client: Client, machine: Machine) -> Change:
    """End the boot override, in the system and in its settings object. Raises BmcError: kind not-taken if it does not show."""
    if machine.system.boot is None and machine.pending is None:
        raise client.error(
            UNSUPPORTED, "the system has no boot override", "Use IPMI for this node.", path=machine.system.path
        )

    def is_taken(found: Shown) -> bool:
        return found.now.is_off and (found.pending is None or found.pending.is_off)

    def body(shown: Shown) -> dict[str, str]:
        boot = shown.pending or shown.now
        target = {"BootSourceOverrideTarget": "None"} if "None" in (boot.targets or ("None",)) else {}
        return {"BootSourceOverrideEnabled": "Disabled", **target, **_mode(machine, boot.mode)}

    return _apply(client, machine, shown_in(machine), "Disabled", body, is_taken)


def _apply(
    client: Client,
    machine: Machine,
    before: Shown,
    expected: str,
    body: _Body,
    is_taken: _IsTaken,
) -> Change:
    path = machine.system.settings_path if machine.pending else machine.system.path
    if is_taken(before):
        # What was read with the machine may be old by now.
        before = read_override(client, machine)
    if is_taken(before) or client.read_only:
        return Change(not is_taken(before), expected, str(before), path)
    last = before

    def write() -> Answer:
        return _write(client, path, body(last), last.pending_etag if machine.pending else last.now_etag, last)

    def read() -> Shown:
        nonlocal last
        last = read_override(client, machine)
        return last

    found, messages = write_until_taken(client, write, read, is_taken)
    if not is_taken(found):
        raise not_taken(client, "the boot override", path, expected, str(found), messages)
    return Change(True, expected, str(before), path)


def _write(client: Client, path: str, body: Mapping[str, str], etag: str, shown: Shown) -> Answer:
    try:
        return finished(client, client.patch(path, {"Boot": dict(body)}, etag))
    except BmcError as error:
        # Some BMCs do not let the mode be written; it is not needed if it is right already.
        names = {one for message in error.messages for one in message.args}
        if error.status != 400 or not any(_MODE in one for one in names):
            raise
        if body.get(_MODE) != (shown.pending or shown.now).mode:
            raise
        rest = {name: value for name, value in body.items() if name != _MODE}
        return finished(client, client.patch(path, {"Boot": rest}, etag))


def _check(client: Client, machine: Machine, boot: Boot, goal: Boot) -> None:
    """Refuse, before the first write, what this BMC cannot do."""
    targets = boot.targets or (machine.system.boot.targets if machine.system.boot else ())
    has_uri = boot.has_uri or bool(machine.system.boot and machine.system.boot.has_uri)
    remedy = "Set another `boot.method` in the profile."
    if goal.target == VIRTUAL_CD_ONLY_BY_ATTRIBUTES:
        what = "the boot target Cd of this BMC is the physical drive, not the virtual one"
        remedy = "Update the firmware of the BMC, or set another `boot.method` in the profile."
    elif targets and goal.target not in targets:
        what = f"no boot target {goal.target}; the BMC offers {', '.join(targets)}"
    elif goal.uri and not has_uri:
        what = "no HttpBootUri"
    elif not machine.dialect.boot_mode_writable and boot.mode not in ("", goal.mode):
        what = (
            f"boot mode {boot.mode}, and the profile needs {goal.mode}; this BMC does not change it with the override"
        )
        remedy = "Set the boot mode in the settings of the BIOS."
    else:
        return
    raise client.error(UNSUPPORTED, what, remedy, path=machine.system.path)


def _is(found: Boot, goal: Boot) -> bool:
    is_mode = found.mode in ("", goal.mode)
    return found.enabled == "Once" and found.target == goal.target and is_mode and goal.uri in ("", found.uri)


def _body(machine: Machine, goal: Boot) -> dict[str, str]:
    """Return the whole override: some BMCs refuse a part of it, others reset the missing properties."""
    uri = {"HttpBootUri": goal.uri} if goal.uri else {}
    found = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": goal.target}
    return {**found, **_mode(machine, goal.mode), **uri}


def _mode(machine: Machine, mode: str) -> dict[str, str]:
    return {_MODE: mode} if machine.dialect.boot_mode_writable and mode else {}
