# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer machines that boot from the network: by DHCP the machines with an open order, by TFTP to each its own files.

A folder of the provision host has `hosts` (a file per order, which dnsmasq reads again at SIGHUP), `tftp` (a folder per MAC) and `shared`
(kernel, initramfs and loaders, no secrets). These belong to the user of dnsmasq, and all in them gets that owner.

The files of an order are below a random name: dnsmasq gives the whole root to a machine without a folder. The machine gets the name as its
host name by DHCP. A tag in `hosts` would be simpler, but dnsmasq 2.90 ends with SIGSEGV when it reads such a file again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

from ..common.files import atomic_link, atomic_write, temporary_of
from . import archive
from .order_text import Order, render

MEDIA, HTTP, PXE = "media", "http", "pxe"
UEFI, BIOS = "UEFI", "Legacy"
UNIT = "bedplate-boot.service"
FOLDERS = ("hosts", "tftp", "shared")
CONFIGURATION = "dnsmasq.conf"
KERNEL, INITRAMFS = "vmlinuz", "initrd.img"
LOADERS: Mapping[str, Mapping[str, str]] = {
    UEFI: {"boot.efi": "shim.efi", "grubx64.efi": "grub-net.efi"},
    BIOS: {"boot.0": "grub-pxe.0"},
}
"""Firmware -> name by TFTP -> file of a boot folder."""
_FILE, _FOLDER = 0o600, 0o700
_LEASE = "15m"
# The signed GRUB reads /grub/grub.cfg alone. Each NIC has a variable.
_FIRST = """\
for name in {names}; do
    if [ -n "$name" ]; then configfile "/$name/boot.cfg"; fi
done
""".format(names=" ".join(f'"$net_efinet{number}_hostname"' for number in range(16)))
_SECOND = """\
linux /{name}/vmlinuz boot=bedplate panic=0 {words}
initrd /{name}/initrd.img /{name}/order.cpio
boot
"""


class NetworkBootError(Exception):
    """A machine that cannot boot from the network. The text has the file or the unit, and what to do."""


def configuration(folder: Path, address: str, network: str) -> str:
    """Return the configuration of dnsmasq. `address` is the provision host's own in `network`, in CIDR notation.

    It answers machines of `hosts` alone, has neither DNS nor a pool of addresses, and listens at that address alone.
    """
    cidr = IPv4Network(network)
    lines = [
        "# Written by bedplate: docs/bare-metal.md. Orders write `hosts`; SIGHUP reads it again.",
        "port=0",
        "no-resolv",
        "no-hosts",
        "no-poll",
        "no-ping",
        "pid-file",
        "bind-dynamic",
        f"listen-address={address}",
        f"dhcp-range={cidr.network_address},static,{cidr.netmask},{_LEASE}",
        "dhcp-ignore=tag:!known",
        f"dhcp-hostsfile={folder / 'hosts'}",
        # The host is on this network.
        "dhcp-option=option:router",
        "dhcp-match=set:bios,option:client-arch,0",
        "dhcp-match=set:efi,option:client-arch,7",
        "dhcp-match=set:efi,option:client-arch,9",
        "dhcp-boot=tag:bios,boot.0",
        "dhcp-boot=tag:efi,boot.efi",
        # Leases are as good as their orders: none outlives the process.
        "leasefile-ro",
        "enable-tftp",
        f"tftp-root={folder / 'tftp'}",
        "tftp-unique-root=mac",
        "tftp-secure",
        "tftp-max=400",
        # Names of files are secrets.
        "quiet-tftp",
        "quiet-dhcp",
    ]
    return "\n".join([*lines, ""])


def command(folder: Path) -> list[str]:
    """Return the command of the daemon, by which it is found, too."""
    return ["dnsmasq", "--keep-in-foreground", f"--conf-file={folder / CONFIGURATION}"]


class NetworkBoot:
    """The folder of a provision host, and its daemon. `daemons` returns the processes that serve the folder."""

    def __init__(self, folder: Path, daemons: Callable[[Path], list[int]] | None = None) -> None:
        """Use a folder, which the role `provision` makes."""
        self.folder = folder
        self._daemons = daemons or running

    def check(self) -> None:
        """Raise NetworkBootError if the folder or the daemon is missing."""
        if missing := [name for name in FOLDERS if not (self.folder / name).is_dir()]:
            text = f"{self.folder}: {', '.join(missing)} not found"
            raise NetworkBootError(f"{text}. Apply the role provision with a profile whose boot method is http or pxe.")
        if not self._daemons(self.folder):
            raise NetworkBootError(f"{UNIT} does not run. Start it: systemctl start {UNIT}")

    def new_name(self, mac: str) -> str:
        """Return the place of an order's files below `tftp`: a secret. Note it before `answer`, for `silence`."""
        return f"{mac.replace(':', '-')}/{secrets.token_hex(20)}"

    def answer(
        self, order: Order, boot: Path, authority: bytes, method: str, firmware: str, words: str, name: str
    ) -> None:
        """Answer the machine of an order from now on. Raises NetworkBootError, OSError.

        `boot` is the boot folder of an image; with PXE, `name` is the place of its files, from `new_name`.
        """
        self.check()
        words_of_host = [order.mac, str(IPv4Interface(order.address).ip), _LEASE]
        with self._alone():
            if method == PXE:
                self._place(order, boot, authority, firmware, words, name)
                words_of_host.insert(2, name.partition("/")[2])
            # Last: without this line nothing is answered.
            self._write(self.folder / "hosts" / order.id, f"{','.join(words_of_host)}\n")
            self.reload()

    def silence(self, order_id: str, name: str) -> None:
        """Answer the machine of an order no more, and remove its files. A second call changes nothing. Raises OSError."""
        if not self.folder.is_dir():
            return
        with self._alone():
            known = self.folder / "hosts" / order_id
            if known.exists():
                known.unlink()
                self.reload()
            if name:
                self._remove(self.folder / "tftp" / name)
            if not any((self.folder / "hosts").iterdir()):
                for left in (self.folder / "shared").iterdir():
                    left.unlink()

    def reload(self) -> None:
        """Signal dnsmasq to read `hosts` again."""
        for process in self._daemons(self.folder):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGHUP)

    def _place(self, order: Order, boot: Path, authority: bytes, firmware: str, words: str, name: str) -> None:
        """Write the files of an order."""
        loaders = LOADERS[firmware]
        sources = {KERNEL: KERNEL, INITRAMFS: INITRAMFS, **loaders}
        if missing := [source for source in sources.values() if not (boot / source).exists()]:
            raise NetworkBootError(f"{boot}: {', '.join(missing)} not found. Build the image again.")
        mac, _slash, secret = name.partition("/")
        machine = self.folder / "tftp" / mac
        own = machine / secret
        for folder in (machine, own):
            self._make(folder)
        for target, source in sources.items():
            place = machine if target in loaders else own
            atomic_link(place / target, str(self._shared(boot / source)))
        files = {"bedplate/order/order": render(order).encode(), "bedplate/order/ca.pem": authority}
        self._write(own / "order.cpio", archive.pack(files))
        self._write(own / "boot.cfg", _SECOND.format(name=secret, words=words))
        if firmware == UEFI:
            self._make(machine / "grub")
            self._write(machine / "grub/grub.cfg", _FIRST)

    def _shared(self, source: Path) -> Path:
        """Return the copy of a boot file that dnsmasq may read, which all machines share."""
        facts = source.stat()
        key = f"{source} {facts.st_size} {facts.st_mtime_ns}"
        path = self.folder / "shared" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}-{source.name}"
        if not path.exists():
            temporary = temporary_of(path)
            shutil.copyfile(source, temporary)
            os.chown(temporary, *self._owner())
            temporary.chmod(_FILE)
            temporary.rename(path)
        return path

    def _remove(self, own: Path) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(own)
        machine = own.parent
        # Files of another order of this MAC stay.
        plain = {"grub", *(name for row in LOADERS.values() for name in row)}
        if machine.is_dir() and all(left.name in plain for left in machine.iterdir()):
            shutil.rmtree(machine)

    def _write(self, path: Path, data: str | bytes) -> None:
        atomic_write(path, data, mode=_FILE, owner=self._owner())

    def _make(self, folder: Path) -> None:
        folder.mkdir(mode=_FOLDER, exist_ok=True)
        os.chown(folder, *self._owner())

    def _owner(self) -> tuple[int, int]:
        facts = (self.folder / "tftp").stat()
        return facts.st_uid, facts.st_gid

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def running(folder: Path) -> list[int]:
    """Return the processes of dnsmasq that serve a folder."""
    wanted = f"--conf-file={folder / CONFIGURATION}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if wanted in words and Path(os.fsdecode(words[0])).name == "dnsmasq":
                    found.append(int(entry.name))
    return found
