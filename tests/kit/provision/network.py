# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of machines that boot from the network, dnsmasq as its unit starts it, a stand-in for it, and a DHCP client of any MAC."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import network_boot

_CAPABILITIES = "+net_admin,+net_raw,+net_bind_service"
NOBODY = 65534
_STAND_IN = """
import signal, sys
def note(text):
    with open(sys.argv[1], "a") as log:
        log.write(text)
signal.signal(signal.SIGHUP, lambda *_: note("reload\\n"))
note("started\\n")
while True:
    signal.pause()
"""


def make_folder(folder: Path, user: int = -1) -> Path:
    """Make the folder as the role does."""
    folder.mkdir()
    for name in network_boot.FOLDERS:
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, user, -1)
    return folder


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process."""
    process.terminate()
    process.wait(30)


def stand_in(folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that the code takes for dnsmasq of a folder; it writes `started`, and `reload` per SIGHUP, into `reloads`."""
    log = folder / "reloads"
    words = ["dnsmasq", "-c", _STAND_IN, str(log), network_boot.command(folder)[-1]]
    process = subprocess.Popen(words, executable=sys.executable)
    until = time.monotonic() + 10
    while not log.exists() and time.monotonic() < until:
        time.sleep(0.02)
    return process


@contextmanager
def dnsmasq(folder: Path, address: str, network: str) -> Iterator[None]:
    """Run dnsmasq for a folder without root, with the capabilities of its unit."""
    (folder / network_boot.CONFIGURATION).write_text(network_boot.configuration(folder, address, network))
    (folder / network_boot.CONFIGURATION).chmod(0o644)
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    held = [f"--inh-caps={_CAPABILITIES}", f"--ambient-caps={_CAPABILITIES}"]
    with (folder.parent / "dnsmasq.log").open("wb") as log:
        words = ["setpriv", *user, *held, *network_boot.command(folder), "--log-facility=-"]
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        time.sleep(1)
        if process.poll() is not None:
            raise RuntimeError(f"dnsmasq did not start: {(folder.parent / 'dnsmasq.log').read_text()}")
        yield
    finally:
        end(process)


@dataclass(frozen=True)
class Offer:
    """What a DHCP server offers: an address and a host name, "" for none."""

    address: str = ""
    name: str = ""


def offer(interface: str, mac: str, seconds: float = 3) -> Offer:
    """Send DHCPDISCOVERs of a MAC at an interface, one each half second, and return the offer."""
    # A SIGHUP that was sent before is read by then.
    time.sleep(0.3)
    hardware, number = bytes.fromhex(mac.replace(":", "")), secrets.token_bytes(4)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as raw:
        raw.bind((interface, 0))
        raw.settimeout(0.5)
        until, sent = time.monotonic() + seconds, 0.0
        while time.monotonic() < until:
            if time.monotonic() - sent > 0.5:
                raw.send(_discover(hardware, number))
                sent = time.monotonic()
            try:
                frame = raw.recv(2048)
            except TimeoutError:
                continue
            # From port 67 to port 68, an answer to this request.
            body = frame[42:]
            if frame[23:24] == b"\x11" and frame[34:38] == struct.pack("!HH", 67, 68) and body[4:8] == number:
                return Offer(socket.inet_ntoa(body[16:20]), _option(body[240:], 12).decode())
    return Offer()


def _discover(mac: bytes, number: bytes) -> bytes:
    head = struct.pack("!BBBB4sHH16s6s10s192s", 1, 1, 6, 0, number, 0, 0x8000, b"", mac, b"", b"")
    options = b"\x63\x82\x53\x63" + bytes([53, 1, 1, 55, 2, 3, 12, 60, 9]) + b"PXEClient" + b"\xff"
    body = head + options + bytes(60)
    udp = struct.pack("!HHHH", 68, 67, 8 + len(body), 0) + body
    start = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    words = sum(struct.unpack("!10H", start))
    words = (words & 0xFFFF) + (words >> 16)
    start = start[:10] + struct.pack("!H", ~words & 0xFFFF) + start[12:]
    return b"\xff" * 6 + mac + b"\x08\x00" + start + udp


def _option(options: bytes, wanted: int) -> bytes:
    place = 0
    while place < len(options) and options[place] != 255:
        if options[place] == 0:
            place += 1
            continue
        length = options[place + 1]
        if options[place] == wanted:
            return options[place + 2 : place + 2 + length].rstrip(b"\0")
        place += 2 + length
    return b""
