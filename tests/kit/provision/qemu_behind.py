# SPDX-License-Identifier: GPL-3.0-or-later
"""A QEMU machine behind a simulated BMC: its power by QMP, its media fetched from their HTTPS URLs, its boots as the BMC was set.

`behind="tests.kit.provision.qemu_behind:make"` in a spec, with the keys of Options as `behind_options`. The machine has the spec's serial
number, first NIC and first drive, and one slot with a medium. Its folder has `events`, lines `SECONDS EVENT` with the seconds since 1970:

    boot Cd | boot None      it was started; the target of the override is used up then
    medium BYTES | no medium REASON
    off                      its operating system powered off
    reset                    its operating system reset; QEMU ends (-no-reboot), and a further boot follows
    ended                    QEMU ended without either
    panic                    its kernel panicked. It hangs, as a real machine does, until an operator commands its BMC

`console.N` has what it printed after boot N.
"""

from __future__ import annotations

import shutil
import ssl
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from lab.guest import firmware_variables, qemu
from lab.guest.bare import VARIABLES, BareMachine, Identity, Wiring
from lab.guest.qmp import Monitor
from lab.shell import LabError
from tests.kit.bmc.behind import BootSource, Events
from tests.kit.bmc.spec import Spec

EVENTS = "events"
_LOOK_S, _END_S = 1.0, 20.0
_GUEST_RESET, _GUEST_OFF = "guest-reset", "guest-shutdown"


@dataclass(frozen=True)
class Options:
    """The machine: its folder, the CA of its media (PEM file, read at each fetch), its interface on this machine, and its size."""

    folder: str
    ca: str
    tap: str
    disk_mib: int = 1024
    memory_mib: int = 1024
    cpus: int = 1
    bios: bool = False


class QemuMachine:
    """The machine. `_start` counts its starts: what watches an earlier start does nothing any more."""

    def __init__(self, machine: BareMachine, ca: Path, events: Events) -> None:
        self._machine, self._ca, self._events = machine, ca, events
        self._folder = machine.folder
        self._lock = threading.RLock()
        self._start = self._boots = 0
        self._monitor: Monitor | None = None

    def power_on(self, boot: BootSource) -> None:
        """Start the machine, and boot it from the source."""
        self.reset(boot)

    def reset(self, boot: BootSource) -> None:
        """End the machine if it runs, start it, and boot it from the source."""
        with self._lock:
            self._stop()
            self._begin(boot)

    def power_off(self, graceful: bool) -> None:
        """End the machine at once, or press its power button."""
        with self._lock:
            if graceful and self._monitor:
                self._monitor.send("system_powerdown")
            elif not graceful:
                self._stop()

    def insert(self, slot: str, image: str) -> None:
        """Fetch a medium. Its URL is a secret, so only a failure's reason is noted."""
        unfinished = self._folder / f"medium-{slot}.part"
        try:
            context = ssl.create_default_context(cafile=str(self._ca))
            with urllib.request.urlopen(image, context=context, timeout=60) as answer, unfinished.open("wb") as out:
                shutil.copyfileobj(answer, out)
        except OSError as error:
            self._note(f"no medium {getattr(error, 'reason', '') or type(error).__name__}")
            return
        unfinished.rename(self._medium(slot))
        self._note(f"medium {self._medium(slot).stat().st_size}")

    def eject(self, slot: str) -> None:
        """Remove the medium of a slot; a machine that runs keeps what it has open."""
        self._medium(slot).unlink(missing_ok=True)

    def close(self) -> None:
        """End the machine."""
        with self._lock:
            self._stop()

    def _begin(self, boot: BootSource) -> None:
        self._start += 1
        self._boots += 1
        media = [path for slot in boot.media if (path := self._medium(slot)).exists()]
        self._note(f"boot {boot.target}")
        try:
            self._machine.switch_on(
                media[0] if media else None,
                pxe=boot.target == "Pxe",
                disk_first=boot.target != "Cd",
                words=self._boot_url(boot.http_boot_uri) if boot.http_boot_uri else (),
            )
            self._monitor = Monitor(self._folder)
        except LabError as error:
            self._note(f"ended {' '.join(str(error).split())}")
            self._events.went_off()
            return
        threading.Thread(target=self._watch, args=(self._monitor, self._start), daemon=True).start()

    def _boot_url(self, url: str) -> list[str]:
        """Make the firmware boot a URL at its next start, once, and trust the CA. Return the arguments of QEMU."""
        variables, authorities = self._folder / "variables", self._folder / "cacerts"
        variables.write_bytes(firmware_variables.boot_url_next(VARIABLES.read_bytes(), url))
        authorities.write_bytes(firmware_variables.certificates(self._ca.read_text()))
        return ["-fw_cfg", f"name={firmware_variables.CA_FILE},file={authorities}"]

    def _stop(self) -> None:
        self._start += 1
        if self._monitor:
            self._monitor.close()
            self._monitor = None
        if qemu.end(self._folder):
            self._keep_console()

    def _watch(self, monitor: Monitor, start: int) -> None:
        """Read the events of a start until its end, and report the end unless the BMC commanded it."""
        reason, is_panic = "", False
        for message in monitor.messages(_LOOK_S):
            if message.get("event") == "SHUTDOWN":
                reason = str(message["data"].get("reason"))
            if not message and not is_panic and qemu.panicked(self._folder):
                is_panic = True
                self._note("panic")
        with self._lock:
            if start != self._start:
                return
            self._wait_for_end()
            self._keep_console()
            self._monitor = None
            if reason == _GUEST_RESET:
                self._note("reset")
                self._begin(self._events.restarts())
            else:
                self._note("off" if reason == _GUEST_OFF else f"ended {reason}".rstrip())
                self._events.went_off()

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + _END_S
        while qemu.process(self._folder) and time.monotonic() < deadline:
            time.sleep(0.05)
        qemu.end(self._folder)

    def _keep_console(self) -> None:
        printed = self._folder / qemu.CONSOLE
        if printed.exists():
            shutil.copy(printed, self._folder / f"console.{self._boots}")

    def _medium(self, slot: str) -> Path:
        return self._folder / f"medium-{slot}.iso"

    def _note(self, text: str) -> None:
        with (self._folder / EVENTS).open("a") as stream:
            stream.write(f"{time.time():.1f} {text}\n")


def make(spec: Spec, events: Events) -> QemuMachine:
    """Return the machine of a spec; its disk is empty."""
    given = Options(**spec.behind_options)
    identity = Identity(spec.serial, str(spec.drives[0]["serial"]), spec.nics[0])
    size = {"disk_mib": given.disk_mib, "memory_mib": given.memory_mib, "cpus": given.cpus}
    machine = BareMachine(Path(given.folder), 0, identity, wiring=Wiring(given.tap), bios=given.bios, **size)
    return QemuMachine(machine, Path(given.ca), events)
