# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine for the installer: folders for sysfs, procfs and devices, disks as files, and a PATH with the programs that it has."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
LIB = ROOT / "plugins/module_utils/provision/installer/lib"
MIB = 1 << 20
DISK_MIB = 48
SERIAL, MAC, DISK_SERIAL = "SN-GPU 001", "52:54:00:be:d9:01", "S64GNE0R-1"
ADDRESS = "10.20.9.1/22"
_SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Without root no address can be set; this keeps the one that was.
_IP = """#!/bin/sh
case "$*" in
"address replace "*) echo "$3" >"{root}/address" ;;
"-o -4 address show dev "*) [ ! -e "{root}/address" ] || {{ read -r a <"{root}/address"; echo "2: $6    inet $a scope global $6"; }} ;;
esac
"""
_POWEROFF = '#!/bin/sh\necho "$*" >>"{root}/off"\n'


def programs() -> list[str]:
    """Return the programs that the installer calls, from its own list."""
    for line in (LIB / "tools.sh").read_text().splitlines():
        if line.startswith('PROGRAMS="'):
            return line.split('"')[1].split()
    raise AssertionError("tools.sh has no list of programs")


@dataclass(frozen=True)
class Ended:
    """How the installer ended: exit status, console, whether it switched the machine off."""

    code: int
    console: str
    is_off: bool

    @property
    def reason(self) -> str:
        """Return the reason of a refusal, or ""."""
        found = [line.partition("REFUSED: ")[2] for line in self.console.splitlines() if "REFUSED: " in line]
        return found[0] if found else ""


class Machine:
    """One machine below a folder, with an empty disk of 48 MiB and one NIC, as its order declares them."""

    def __init__(self, root: Path, shell: str = "/bin/dash") -> None:
        """Make its folders; `shell` runs the installer. `seconds`: how long it waits for devices; `environment` of the installer."""
        self.root, self.shell = root, shell
        self.seconds, self.environment = 0, dict[str, str]()
        self.sys, self.proc, self.dev, self.conf, self.bin = (
            root / one for one in ("sys", "proc", "dev", "conf", "bin")
        )
        for folder in (
            self.sys / "class/dmi/id",
            self.proc / "sys/kernel/random",
            self.proc / "sys/vm",
            self.dev,
            self.conf,
            self.bin,
        ):
            folder.mkdir(parents=True)
        (self.sys / "class/dmi/id/product_serial").write_text(f" {SERIAL} \n")
        (self.proc / "mounts").write_text("proc /proc proc rw 0 0\n")
        (self.proc / "swaps").write_text("Filename\tType\tSize\tUsed\tPriority\n")
        self.boot("11111111-2222-3333-4444-555555555555")
        self.add_nic("eth0", MAC)
        self.add_nic("eth1", "52:54:00:be:d9:02")
        self.disk = self.add_disk("vda", DISK_SERIAL)
        self.other = self.add_disk("vdb", "OTHER-DISK")
        self.other.write_bytes(b"data" * 4096)
        for name in (*programs(), "openssl"):
            found = shutil.which(name, path=_SEARCH)
            if found and name not in ("ip", "poweroff"):
                (self.bin / name).symlink_to(found)
        self.stand_in("ip", _IP.format(root=root))
        self.stand_in("poweroff", _POWEROFF.format(root=root))

    def boot(self, uuid: str) -> None:
        """Start it again: the kernel has another random number, and the folder of the last run is empty."""
        (self.proc / "sys/kernel/random/uuid").write_text(f"{uuid}\n")
        shutil.rmtree(self.root / "run", ignore_errors=True)
        for left in ("off", "address"):
            (self.root / left).unlink(missing_ok=True)

    def add_nic(self, name: str, mac: str) -> None:
        """Add a NIC that has a link."""
        (self.sys / "class/net" / name / "device").mkdir(parents=True)
        (self.sys / "class/net" / name / "address").write_text(f"{mac}\n")
        (self.sys / "class/net" / name / "carrier").write_text("1\n")

    def add_disk(self, name: str, serial: str, mib: int = DISK_MIB) -> Path:
        """Add an empty disk, and return its file."""
        block = self.sys / "block" / name
        (block / "device").mkdir(parents=True)
        (block / "queue").mkdir()
        size = str(mib * MIB // 512)
        for key, text in (("serial", serial), ("ro", "0"), ("size", size), ("queue/logical_block_size", "512")):
            (block / key).write_text(f"{text}\n")
        path = self.dev / name
        with path.open("wb") as stream:
            stream.truncate(mib * MIB)
        return path

    def stand_in(self, name: str, text: str | None) -> None:
        """Replace a program by a script, or remove it."""
        (self.bin / name).unlink(missing_ok=True)
        if text is not None:
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def give(self, order: str, ca: Path) -> None:
        """Give it the order and the CA, as its medium does."""
        (self.conf / "order").write_text(order)
        (self.conf / "ca.pem").write_bytes(ca.read_bytes())

    def digest(self) -> str:
        """Return the SHA-256 of both disks."""
        return hashlib.sha256(self.disk.read_bytes() + self.other.read_bytes()).hexdigest()

    def install(self, timeout: float = 60) -> Ended:
        """Run the installer to its end."""
        done = subprocess.run(
            self._words(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=self._environment(),
            errors="replace",
        )
        return Ended(done.returncode, done.stdout + done.stderr, (self.root / "off").exists())

    def lose_power(self, seconds: float) -> bool:
        """Run the installer, and kill it with all its programs after so many seconds. Return True if it had not ended."""
        process = subprocess.Popen(
            self._words(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return True
        return False

    def _words(self) -> list[str]:
        places = [self.sys, self.proc, self.dev, self.root / "run", self.conf]
        return [*self.shell.split(), str(LIB / "main.sh"), str(LIB), *map(str, places), str(self.seconds)]

    def _environment(self) -> dict[str, str]:
        return {"PATH": str(self.bin), "TMPDIR": os.environ.get("TMPDIR", "/tmp"), **self.environment}
