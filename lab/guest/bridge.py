# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a guest on the network of a lab's containers, so that they and it are one cluster; and bridges and interfaces of bare machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.guest.machine import Guest
from lab.host import inspect
from lab.nodes import network_name
from lab.podman import Podman
from lab.shell import LabError, capture, succeeds

_SERVICE = """\
[Unit]
DefaultDependencies=no
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'for one in /sys/class/net/*; do test "$(cat $one/address)" = {mac} && name=$(basename $one); done; \
  ip link set $name up; ip address add {address}/24 dev $name; ip route replace default via {gateway} dev $name'
[Install]
WantedBy=sysinit.target
"""


def join(guest: Guest, tap: str, lab: str, name: str, address: str, mac: str) -> None:
    """Put the interface `tap` of a running guest on the bridge of a lab, and give the guest this name and address in each of its boots.

    It reaches what containers reach: its way leads over the bridge, and it has their name server.
    """
    network = _network(lab)
    capture(["ip", "link", "set", tap, "master", str(network["network_interface"])])
    capture(["ip", "link", "set", tap, "up"])
    unit = _SERVICE.format(address=address, mac=mac, gateway=network["subnets"][0]["gateway"])
    guest.run("cat > /etc/resolv.conf", stdin=Path("/etc/resolv.conf").read_text())
    guest.run("cat > /etc/systemd/system/lab-cluster.service", stdin=unit)
    guest.run(f"echo {name} > /etc/hostname; hostname {name}; systemctl enable --now lab-cluster.service")


@contextmanager
def own(name: str, address: str) -> Iterator[None]:
    """Make a bridge of this machine with an address in CIDR notation, without a lab; remove it at the end."""
    remove(name)
    capture(["ip", "link", "add", name, "type", "bridge"])
    try:
        capture(["ip", "address", "add", address, "dev", name])
        capture(["ip", "link", "set", name, "up"])
        yield
    finally:
        remove(name)


@contextmanager
def taps(bridge: str, names: Sequence[str]) -> Iterator[None]:
    """Make interfaces for bare machines on a bridge; they outlive the machines' starts, and are removed at the end."""
    for name in names:
        remove(name)
    try:
        for name in names:
            capture(["ip", "tuntap", "add", name, "mode", "tap"])
            capture(["ip", "link", "set", name, "master", bridge])
            capture(["ip", "link", "set", name, "up"])
        yield
    finally:
        for name in names:
            remove(name)


def of_lab(lab: str) -> str:
    """Return the bridge of a lab. LabError: it has no network."""
    return str(_network(lab)["network_interface"])


def remove(name: str) -> None:
    """Remove an interface of this machine, if it exists."""
    succeeds(["ip", "link", "delete", name])


def _network(lab: str) -> dict[str, Any]:
    network = Podman(inspect()).network(network_name(lab))
    if not network:
        raise LabError(f"the lab {lab} has no network; start it first")
    return network
