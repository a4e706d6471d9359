# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual machine itself: QEMU's arguments and process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.shell import capture

SOCKETS, CORES = 2, 2
NODE_MIB = 1024
"""Memory of each of the two NUMA nodes, which are the sockets."""
PIDFILE, CONSOLE, DISK = "qemu.pid", "console.log", "disk.qcow2"
_CREDENTIALS = "opt/io.systemd.credentials"
_PATIENCE = 10


@dataclass(frozen=True)
class GuestNic:
    """A further NIC of a guest: QEMU's model, at a NUMA node.

    With `queues` it is at an interface of this machine that leads nowhere; `tap` names that interface, so that it can be put on a bridge.
    """

    model: str
    node: int
    queues: int = 0
    tap: str = ""
    mac: str = ""


def command(
    name: str,
    folder: Path,
    port: int,
    credentials: dict[str, Path],
    nics: Sequence[GuestNic] = (),
    cpu: str = "max",
) -> list[str]:
    """Return the command that starts a guest in the background.

    Emulation always: on many machines that are themselves virtual, KVM is there and hangs. With an IOMMU, whose groups say what it does.
    `port` of this machine's own loopback leads to the guest's SSH; it reaches nobody. `credentials` are for its systemd.
    """
    nodes = []
    for number in range(SOCKETS):
        nodes += ["-object", f"memory-backend-ram,id=memory{number},size={NODE_MIB}M"]
        nodes += ["-numa", f"node,nodeid={number},memdev=memory{number}"]
        nodes += ["-numa", f"cpu,node-id={number},socket-id={number}"]
    told = [word for key, path in credentials.items() for word in ("-fw_cfg", f"name={_CREDENTIALS}/{key},file={path}")]
    return [
        "qemu-system-x86_64", "-name", f"bedplate-guest-{name}",
        "-machine", "q35,sata=off,smbus=off,i8042=off,vmport=off", "-accel", "tcg,thread=multi", "-cpu", cpu,
        "-smp", f"{SOCKETS * CORES},sockets={SOCKETS},cores={CORES},threads=1", "-m", f"{SOCKETS * NODE_MIB}M", *nodes,
        "-device", "intel-iommu,intremap=off",
        "-drive", f"file={folder / DISK},if=none,id=disk,cache=unsafe", "-device", "virtio-blk-pci,drive=disk",
        "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22", "-device", "virtio-net-pci,netdev=net,romfile=",
        *_nics(nics), *told,
        "-nodefaults", "-display", "none", "-serial", f"file:{folder / CONSOLE}",
        "-daemonize", "-pidfile", str(folder / PIDFILE),
    ]  # fmt: skip


def _nics(nics: Sequence[GuestNic]) -> Iterator[str]:
    """Yield the arguments of NICs, each in a slot of a host bridge that is at its NUMA node."""
    for node in sorted({nic.node for nic in nics}):
        yield from ("-device", f"pxb-pcie,bus=pcie.0,id=bridge{node},bus_nr={64 * (node + 1)},numa_node={node}")
    for number, nic in enumerate(nics):
        device = f"{nic.model},bus=slot{number},romfile=" + (f",mac={nic.mac}" if nic.mac else "")
        yield from ("-device", f"pcie-root-port,id=slot{number},bus=bridge{nic.node},chassis={number + 1}")
        if nic.queues:
            name = f",ifname={nic.tap}" if nic.tap else ""
            yield from ("-netdev", f"tap,id=nic{number},queues={nic.queues},script=no,downscript=no{name}")
            device += f",netdev=nic{number},mq=on,vectors={2 * nic.queues + 2}"
        yield from ("-device", device)


def overlay(image: Path, folder: Path) -> None:
    """Make the disk of a guest: what it writes, before an image that stays as it is."""
    capture(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image), str(folder / DISK)])


def process(folder: Path) -> int | None:
    """Return the process of the guest in a folder, None if it does not run. Another process with its old number does not count."""
    try:
        number = int((folder / PIDFILE).read_text())
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return number if str(folder / PIDFILE).encode() in words else None


def panicked(folder: Path) -> bool:
    """Return True if the guest's kernel panicked since the guest was switched on."""
    return "Kernel panic - not syncing" in _printed(folder)


def end(folder: Path) -> bool:
    """End the guest in a folder as if its power went; return whether it ran."""
    ran = False
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _PATIENCE
        while (pid := process(folder)) and time.monotonic() < deadline:
            if not ran or number == signal.SIGKILL:
                os.kill(pid, number)
            ran = True
            time.sleep(0.1)
    return ran


def console(folder: Path, lines: int = 25) -> str:
    """Return the last lines of the guest's console."""
    return "\n".join(f"  {line}" for line in _printed(folder).splitlines()[-lines:]) or "  (nothing)"


def _printed(folder: Path) -> str:
    try:
        return (folder / CONSOLE).read_text(errors="replace").replace("\r", "")
    except OSError:
        return ""
