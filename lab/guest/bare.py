# SPDX-License-Identifier: GPL-3.0-or-later
"""A bare machine: UEFI with Secure Boot or BIOS, an empty disk with a serial number, a medium; nothing of it is known from inside."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.guest import qemu, qmp
from lab.host import FIRMWARE
from lab.shell import LabError, capture

VARIABLES = FIRMWARE.with_name("OVMF_VARS_4M.ms.fd")
HOST, ADDRESS = "10.0.2.2", "10.0.2.15/24"
"""This machine in QEMU's own network, and the machine."""
_POLL = 0.5


@dataclass(frozen=True)
class Identity:
    """The facts of a machine that machines.json declares: serial number of the system and of its disk, and MAC."""

    serial: str = "SN-GPU001"
    disk: str = "DISK-GPU001"
    mac: str = "52:54:00:be:d9:01"


@dataclass(frozen=True)
class Wiring:
    """The connection of a machine. With `tap`, an interface of this machine, its NIC is there, and SSH is at `address`.

    Else its NIC is in QEMU's own network, and a port of this machine's loopback leads to its SSH.
    """

    tap: str = ""
    address: str = "127.0.0.1"


class BareMachine:
    """A machine in a folder. Use as a context to have it switched off at the end."""

    def __init__(
        self,
        folder: Path,
        port: int,
        identity: Identity = Identity(),
        disk_mib: int = 1024,
        *,
        wiring: Wiring = Wiring(),
        bios: bool = False,
        cpus: int = 2,
        memory_mib: int = 1024,
    ) -> None:
        """Make its empty disk and its firmware's variables; `port` leads to its SSH. With `bios` its firmware is SeaBIOS."""
        self.folder, self.port, self.identity = folder, port, identity
        self.wiring, self.bios = wiring, bios
        self.cpus, self.memory_mib = cpus, memory_mib
        folder.mkdir(parents=True)
        self.disk = folder / "disk"
        with self.disk.open("wb") as raw:
            raw.truncate(disk_mib << 20)
        shutil.copy(VARIABLES, folder / "variables")
        self.panics = 0

    def __enter__(self) -> BareMachine:
        return self

    def __exit__(self, *_: object) -> None:
        qemu.end(self.folder)

    def switch_on(
        self,
        medium: Path | None = None,
        serial: str = "",
        *,
        pxe: bool = False,
        disk_first: bool = False,
        words: Sequence[str] = (),
    ) -> None:
        """Start it: from a medium if it has one, with `pxe` from the network, and from its disk otherwise.

        `serial` is another than its own; with `disk_first` the medium is only for a disk that does not boot; `words` are further
        arguments of QEMU.
        """
        (self.folder / qemu.CONSOLE).unlink(missing_ok=True)
        command = [*self._command(medium, serial or self.identity.serial, pxe, 2 if disk_first else 0), *words]
        capture(command, why="The bare machine could not be started.")

    def _command(self, medium: Path | None, serial: str, pxe: bool, cd_index: int) -> list[str]:
        cd = ["-drive", f"file={medium},format=raw,if=none,id=cd,readonly=on"]
        cd += ["-device", f"ide-cd,drive=cd,bootindex={cd_index}"]
        tap = self.wiring.tap
        user = f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        # The default ROM is the PXE of a BIOS; OVMF has its own.
        nic = f"virtio-net-pci,netdev=net,mac={self.identity.mac}{'' if self.bios and pxe else ',romfile='}"
        return [
            "qemu-system-x86_64", "-machine", f"q35,smm={'off' if self.bios else 'on'},vmport=off,i8042=off",
            "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(self.cpus), "-m", str(self.memory_mib), "-no-reboot",
            *([] if self.bios else self._uefi()),
            "-smbios", f"type=1,serial={serial}",
            "-drive", f"file={self.disk},format=raw,if=none,id=disk,cache=unsafe",
            "-device", f"virtio-blk-pci,drive=disk,serial={self.identity.disk},bootindex=1",
            "-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no" if tap else user,
            "-device", f"{nic}{',bootindex=0' if pxe else ''}",
            *(cd if medium else []),
            "-nodefaults", "-display", "none", "-serial", f"file:{self.folder / qemu.CONSOLE}",
            "-qmp", f"unix:{self.folder / qmp.SOCKET},server=on,wait=off",
            "-daemonize", "-pidfile", str(self.folder / qemu.PIDFILE),
        ]  # fmt: skip

    def _uefi(self) -> list[str]:
        return [
            "-global", "driver=cfi.pflash01,property=secure,value=on",
            "-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={FIRMWARE}",
            "-drive", f"if=pflash,format=raw,unit=1,file={self.folder / 'variables'}",
        ]  # fmt: skip

    def wait_off(self, seconds: float = 900) -> float:
        """Wait until it is off, and return how many seconds that took. LabError: it is still on; it is switched off then."""
        started = time.monotonic()
        while qemu.process(self.folder):
            if time.monotonic() - started > seconds or qemu.panicked(self.folder):
                self.panics += qemu.panicked(self.folder)
                self.power_off()
                raise LabError(f"the machine did not end in {seconds:.0f} s, or its kernel panicked\n{self.console()}")
            time.sleep(_POLL)
        return time.monotonic() - started

    def wait_console(self, text: str, seconds: float) -> None:
        """Wait until its console has a text. LabError: it did not in time."""
        deadline = time.monotonic() + seconds
        while text not in self.console(1000):
            if time.monotonic() > deadline:
                raise LabError(f"no {text!r} on the console within {seconds:.0f} s\n{self.console()}")
            time.sleep(_POLL)

    def power_off(self) -> None:
        """Switch it off as if its power went."""
        qemu.end(self.folder)

    def console(self, lines: int = 40) -> str:
        """Return the last lines of its console since it was switched on."""
        return qemu.console(self.folder, lines)

    def digest(self) -> str:
        """Return the SHA-256 of its disk."""
        with self.disk.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def ssh(self, command: str, key: Path, known_hosts: Path, seconds: float) -> str:
        """Run a command there as root, as soon as it answers with the known host key. LabError: it did not in time."""
        options = {
            "UserKnownHostsFile": str(known_hosts), "HostKeyAlias": "node", "StrictHostKeyChecking": "yes", "ConnectTimeout": "10",
            "IdentitiesOnly": "yes", "GlobalKnownHostsFile": "/dev/null", "LogLevel": "ERROR",
        }  # fmt: skip
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and qemu.process(self.folder):
            try:
                done = subprocess.run(
                    ["ssh", "-p", str(self.port), "-i", str(key), *words, f"root@{self.wiring.address}", command],
                    capture_output=True, text=True, timeout=120, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                continue
            if done.returncode == 0:
                return done.stdout
            time.sleep(1)
        raise LabError(f"no answer by SSH within {seconds:.0f} s\n{self.console()}")
