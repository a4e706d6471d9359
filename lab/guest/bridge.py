# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a guest on the network of a lab's containers, so that they and it are one cluster."""

from __future__ import annotations

from pathlib import Path

from lab.guest.machine import Guest
from lab.host import inspect
from lab.nodes import network_name
from lab.podman import Podman
from lab.shell import LabError, capture

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
    network = Podman(inspect()).network(network_name(lab))
    if not network:
        raise LabError(f"the lab {lab} has no network; start it first")
    capture(["ip", "link", "set", tap, "master", str(network["network_interface"])])
    capture(["ip", "link", "set", tap, "up"])
    unit = _SERVICE.format(address=address, mac=mac, gateway=network["subnets"][0]["gateway"])
    guest.run("cat > /etc/resolv.conf", stdin=Path("/etc/resolv.conf").read_text())
    guest.run("cat > /etc/systemd/system/lab-cluster.service", stdin=unit)
    guest.run(f"echo {name} > /etc/hostname; hostname {name}; systemctl enable --now lab-cluster.service")
