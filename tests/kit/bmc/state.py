# SPDX-License-Identifier: GPL-3.0-or-later
"""State machine of one simulated BMC: power, boot override, media, BIOS settings, sessions, tasks."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from tests.kit.bmc.accounts import accounts_of
from tests.kit.bmc.behind import BootSource, Events, Nothing, behind_of
from tests.kit.bmc.spec import Spec

Later = Callable[[float, Callable[[], None]], object]
"""Call a function after seconds."""
SYSTEM, SETTINGS, BIOS, BIOS_SETTINGS = "system", "settings", "bios", "bios-settings"
NO_OVERRIDE = {
    "BootSourceOverrideEnabled": "Disabled",
    "BootSourceOverrideTarget": "None",
    "BootSourceOverrideMode": "UEFI",
    "HttpBootUri": "",
}
HTTP_URI = "HttpDev1Uri"
RESTARTS = ("ForceRestart", "GracefulRestart", "PowerCycle")


@dataclass
class Slot:
    """A slot of virtual media."""

    name: str
    types: list[str]
    image: str = ""
    is_kvm_only: bool = False
    write_protected: bool = True


@dataclass
class Task:
    """A task: what it does at its end, and its state."""

    number: int
    effect: Callable[[], None]
    state: str = "Running"
    is_monitor_read: bool = False


@dataclass
class State:
    """All that changes of one BMC. `later` schedules; `versions` count the changes of each resource, for its ETag."""

    spec: Spec
    later: Later
    call_soon: Callable[[Callable[[], None]], object]
    fingerprint: str = ""
    power: str = ""
    boot: dict[str, str] = field(default_factory=lambda: dict(NO_OVERRIDE))
    bios: dict[str, Any] = field(default_factory=dict)
    bios_pending: dict[str, Any] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    """Token -> id."""
    users: dict[str, str] = field(default_factory=dict)
    """Token -> name of the account."""
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Id -> account. The password of the first one is the spec's."""
    passwords: dict[str, str] = field(default_factory=dict)
    protocols: dict[str, Any] = field(default_factory=lambda: {"ntp": [], "ntp_on": True, "ipmi": True})
    certificate: str = ""
    """The served certificate (PEM)."""
    request_key: ec.EllipticCurvePrivateKey | None = None
    """Key of the last signing request."""
    serve: Callable[[bytes], None] = lambda _pem: None
    """Serve a certificate with its key (PEM) from the next connection on."""
    tasks: dict[str, Task] = field(default_factory=dict)
    versions: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    """Requests by method, with those that a fault answered."""
    log: list[str] = field(default_factory=list)
    """`METHOD path status` of each request, 0 for a cut connection."""
    boots: list[dict[str, Any]] = field(default_factory=list)
    """Source of each boot since the start."""
    resets: list[str] = field(default_factory=list)
    """ResetType of each reset that was obeyed."""
    most_sessions: int = 0
    reset_time: str = "2026-01-01T00:00:00Z"
    keeps_log: bool = True
    connections: set[asyncio.Transport] = field(default_factory=set)

    def __post_init__(self) -> None:
        spec = self.spec
        self.power, self.bios = spec.power, dict(spec.bios)
        self.accounts = accounts_of(spec)
        self.first_account = next(one for one, account in self.accounts.items() if account["UserName"])
        self.slots = [Slot("1", ["Floppy", "USBStick"]), Slot("2", ["CD", "DVD"])]
        if spec.slots:
            self.slots = [Slot(name, ["CD", "DVD"]) for name in spec.slots]
        if spec.http_uri_in_bios:
            self.bios.setdefault(HTTP_URI, "")
        if spec.kvm_slot:
            self.slots.insert(0, Slot("0", ["CD", "DVD"], is_kvm_only=True))
        self._next = 0
        self._behind = behind_of(spec, Events(self.went_off, self.restarts))
        self._thread = None if isinstance(self._behind, Nothing) else ThreadPoolExecutor(1)

    def take(self, what: str) -> bool:
        """Return whether a write is taken, by the fault `not_taken`."""
        faults = self.spec.faults
        if what not in faults.not_taken or not faults.not_taken_count:
            return True
        if faults.not_taken_count > 0:
            faults.not_taken_count -= 1
        return False

    def bump(self, resource: str) -> None:
        """Count a change of a resource."""
        self.versions[resource] += 1

    def hang_up(self) -> None:
        """Close all connections."""
        for transport in list(self.connections):
            transport.close()

    def log_in(self, user: str) -> tuple[str, str]:
        """Return token and id of a new session."""
        token = f"canary-token-{secrets.token_hex(16)}"
        self._next += 1
        self.sessions[token], self.users[token] = str(self._next), user
        self.most_sessions = max(self.most_sessions, len(self.sessions))
        return token, str(self._next)

    def start_task(self, effect: Callable[[], None]) -> Task:
        """Return a task that ends after `task_s` and then has its effect."""
        self._next += 1
        task = Task(self._next, effect)
        self.tasks[str(self._next)] = task

        def end() -> None:
            task.state = self.spec.faults.task_state
            if task.state == "Completed":
                task.effect()

        self.later(self.spec.faults.task_s, end)
        return task

    def reset(self, kind: str) -> None:
        """Obey a reset type, which the caller has checked."""
        if not self.take("power"):
            return
        self.resets.append(kind)
        if kind in ("On", "ForceOn"):
            self._turn_on()
        elif kind == "PushPowerButton":
            self._turn_on() if self.power == "Off" else self._turn_off(True)
        elif kind in ("ForceOff", "GracefulShutdown"):
            graceful = kind == "GracefulShutdown"
            if not (graceful and self.spec.faults.ignores_graceful):
                self._turn_off(graceful)
        elif kind in RESTARTS:
            if self.power == "Off":
                self._turn_on()
            else:
                source = self._next_boot()
                self._command(lambda: self._behind.reset(source))

    def _turn_on(self) -> None:
        if self.power != "Off":
            return
        source = self._next_boot()
        self._pass("PoweringOn", "On")
        self._command(lambda: self._behind.power_on(source))

    def _turn_off(self, graceful: bool) -> None:
        if self.power == "Off":
            return
        self._command(lambda: self._behind.power_off(graceful))
        # A real operating system decides itself when it is off.
        if not (graceful and self._thread):
            self._pass("PoweringOff", "Off")

    def _pass(self, through: str, to: str) -> None:
        def arrive() -> None:
            if self.power == through:
                self._set_power(to)

        if self.spec.power_s:
            self._set_power(through)
            self.later(self.spec.power_s, arrive)
        else:
            self._set_power(to)

    def _set_power(self, power: str) -> None:
        self.power = power
        self.bump(SYSTEM)

    def _next_boot(self) -> BootSource:
        """Return the source of the next boot: use the override up, and apply pending BIOS attributes."""
        boot = self.boot
        is_set = boot["BootSourceOverrideEnabled"] != "Disabled"
        media = {one.name: one.image for one in self.slots if one.image}
        target = boot["BootSourceOverrideTarget"] if is_set else "None"
        self.bios.update(self.bios_pending)
        self.bios_pending = {}
        self.bump(BIOS)
        uri = str(self.bios[HTTP_URI]) if self.spec.http_uri_in_bios else boot["HttpBootUri"]
        source = BootSource(target, boot["BootSourceOverrideMode"], uri if target == "UefiHttp" else "", media)
        if boot["BootSourceOverrideEnabled"] == "Once":
            self.boot = {**NO_OVERRIDE, "BootSourceOverrideMode": boot["BootSourceOverrideMode"]}
            self.bump(SYSTEM)
            self.bump(SETTINGS)
        self.boots.append({"target": source.target, "uri": source.http_boot_uri, "media": media})
        self.reset_time = datetime.now(UTC).isoformat()
        return source

    def set_boot(self, changes: dict[str, str]) -> None:
        """Change the boot override."""
        if self.take("boot"):
            self._when_taken(lambda: self.boot.update(changes), SYSTEM, SETTINGS)

    def insert(self, slot: Slot, image: str) -> None:
        """Put a medium into a slot."""
        if not self.take("media"):
            return

        def show() -> None:
            slot.image = image

        self._command(lambda: self._behind.insert(slot.name, image))
        self._when_taken(show, f"media-{slot.name}")

    def eject(self, slot: Slot) -> None:
        """Remove a medium."""
        if not self.take("eject"):
            return

        def show() -> None:
            slot.image = ""

        self._command(lambda: self._behind.eject(slot.name))
        if self.spec.faults.eject_s:
            self.later(self.spec.faults.eject_s, show)
        else:
            self._when_taken(show, f"media-{slot.name}")

    def set_bios(self, changes: dict[str, Any]) -> None:
        """Change BIOS attributes at the next reset."""
        if self.take("bios"):
            self.bios_pending.update(changes)
            self.bump(BIOS_SETTINGS)

    def _when_taken(self, change: Callable[[], None], *resources: str) -> None:
        def do() -> None:
            change()
            for one in resources:
                self.bump(one)

        if self.spec.faults.takes_s:
            self.later(self.spec.faults.takes_s, do)
        else:
            do()

    def _command(self, call: Callable[[], None]) -> None:
        if self._thread:
            self._thread.submit(call)

    def went_off(self) -> None:
        """The machine powered itself off; from any thread."""
        self.call_soon(lambda: self._set_power("Off"))

    def restarts(self) -> BootSource:
        """Return the source of the boot after the machine's own reset; from any thread except the loop's."""
        from concurrent.futures import Future

        found: Future[BootSource] = Future()
        self.call_soon(lambda: found.set_result(self._next_boot()))
        return found.result(10)

    def close(self) -> None:
        """End the machine behind it."""
        self._behind.close()
        if self._thread:
            self._thread.shutdown(wait=False)

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        return {
            "power": self.power,
            "boot": dict(self.boot),
            "media": {one.name: one.image for one in self.slots},
            "bios": dict(self.bios),
            "bios_pending": dict(self.bios_pending),
            "accounts": {
                one["UserName"]: {**one, "Id": number, "Password": self.passwords.get(number, self.spec.password)}
                for number, one in self.accounts.items()
                if one["UserName"]
            },
            "protocols": dict(self.protocols),
            "fingerprint": self.fingerprint,
            "sessions": len(self.sessions),
            "most_sessions": self.most_sessions,
            "requests": dict(self.requests),
            "log": list(self.log),
            "boots": list(self.boots),
            "resets": list(self.resets),
            "faults": self.spec.faults.__dict__.copy(),
        }
