# SPDX-License-Identifier: GPL-3.0-or-later
"""Set and clear the boot override, and read it back: at the settings object too, if the BMC has one with Boot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .client import Answer, Client
from .errors import UNSUPPORTED, BmcError
from .machine import Boot, Machine
from .machine_reading import boot_of, read_system
from .read_back import Change, not_taken, write_until_taken
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


def set_override(client: Client, machine: Machine, wanted: Override) -> Change:
    """Let the next boot, and only that one, be from `wanted`.

    The machine must be read with PENDING. Raises BmcError: kind unsupported if the BMC does not offer it, not-taken if it does not show.
    """
    boot = machine.pending or machine.system.boot
    if boot is None:
        raise client.error(
            UNSUPPORTED, "the system has no boot override", "Use IPMI for this node.", path=machine.system.path
        )
    _check(client, machine, boot, wanted)
    before = shown_in(machine)

    def is_taken(found: Shown) -> bool:
        return _is(found.pending or found.now, wanted)

    return _apply(client, machine, before, str(wanted), lambda shown: _body(shown, wanted), is_taken)


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
        return {"BootSourceOverrideEnabled": "Disabled", **target, **_mode(boot, boot.mode)}

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


def _check(client: Client, machine: Machine, boot: Boot, wanted: Override) -> None:
    targets = boot.targets or (machine.system.boot.targets if machine.system.boot else ())
    has_uri = boot.has_uri or bool(machine.system.boot and machine.system.boot.has_uri)
    remedy = "Set another `boot.method` in the profile."
    if targets and wanted.target not in targets:
        what = f"no boot target {wanted.target}; the BMC offers {', '.join(targets)}"
        raise client.error(UNSUPPORTED, what, remedy, path=machine.system.path)
    if wanted.uri and not has_uri:
        raise client.error(UNSUPPORTED, "no HttpBootUri", remedy, path=machine.system.path)


def _is(found: Boot, wanted: Override) -> bool:
    is_mode = not found.has_mode or not found.mode or found.mode == wanted.mode
    return (
        found.enabled == "Once"
        and found.target == wanted.target
        and is_mode
        and (not wanted.uri or found.uri == wanted.uri)
    )


def _body(shown: Shown, wanted: Override) -> dict[str, str]:
    """Return the whole override: some BMCs refuse a part of it, others reset the missing properties."""
    uri = {"HttpBootUri": wanted.uri} if wanted.uri else {}
    found = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": wanted.target}
    return {**found, **_mode(shown.pending or shown.now, wanted.mode), **uri}


def _mode(boot: Boot, mode: str) -> dict[str, str]:
    return {_MODE: mode} if boot.has_mode and mode else {}
