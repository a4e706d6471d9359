# SPDX-License-Identifier: GPL-3.0-or-later
"""Configure the network interfaces of the rails: addresses, MTU, and replies to ARP requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..common.command import Runner
from ..common.files import atomic_write
from ..common.finding import Finding
from ..common.sysfs import Root
from ..primitives.kernel import kernel_files, sysctl
from . import rail_routes
from .rdma_devices import NicSettings, RdmaDevice, find

OURS = "run/bedplate/rdma-addresses.json"
# Several interfaces with IPv4 addresses: each answers only for its own address, sends requests with it, and accepts replies for the others.
_SHARED = {"rp_filter": "2", "arp_ignore": "1", "arp_announce": "2"}
_RESTART = "systemctl restart bedplate-rdma; who changed it?"


@dataclass(frozen=True)
class Interface:
    """A network interface: its IPv4 addresses with their length, whether it is up, its MTU in bytes."""

    addresses: tuple[str, ...]
    up: bool
    mtu: int


class LinkError(Exception):
    """Interface that cannot be read, with the reason."""


def read_link(interface: str, run: Runner) -> Interface:
    """Return what `ip` reports of an interface. Raises LinkError if it fails."""
    outcome = run(["ip", "-j", "addr", "show", "dev", interface])
    try:
        data = next(one for one in json.loads(outcome.stdout or "[]") if one)
        found = [f"{one['local']}/{one['prefixlen']}" for one in data["addr_info"] if one["family"] == "inet"]
        return Interface(tuple(found), "UP" in data["flags"], int(data["mtu"]))
    except (ValueError, KeyError, TypeError, StopIteration):
        raise LinkError(f"interface {interface}: {outcome.error_line}") from None


def addresses_of(interface: str, run: Runner) -> list[str]:
    """Return the addresses of an interface without their length; none if it cannot be read, which is a finding elsewhere."""
    try:
        return [one.partition("/")[0] for one in read_link(interface, run).addresses]
    except LinkError:
        return []


def interfaces(devices: Sequence[RdmaDevice], nics: Sequence[NicSettings]) -> Iterator[tuple[NicSettings, str]]:
    """Yield the NICs with settings for their interface, and the interface; "" if the device is missing or lacks an interface."""
    for nic in nics:
        if nic.address or nic.mtu:
            device = find(devices, nic)
            yield nic, device.interface if device else ""


def shared(interface: str) -> list[kernel_files.Write]:
    """Return the settings of an interface beside others with IPv4 addresses."""
    return [kernel_files.Write(f"proc/sys/net/ipv4/conf/{interface}/{key}", value) for key, value in _SHARED.items()]


def configure(
    root: Root, devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], management: str, run: Runner
) -> Iterator[str]:
    """Configure the rails' interfaces; yield the failures. The interface with the address of Ansible and Slurm is not changed."""
    before, now = _ours(root), {}
    routed: dict[NicSettings, str] = {}
    for nic, interface in interfaces(devices, nics):
        routed[nic] = ""
        if not interface:
            sys.stdout.write(f"{nic.name}: no network interface yet; it gets its address when it appears\n")
            continue
        try:
            link = read_link(interface, run)
        except LinkError as error:
            yield str(error)
            continue
        if management in [one.partition("/")[0] for one in link.addresses]:
            yield f"{nic.name}: its interface {interface} has the address {management} of `management` and was not changed"
            del routed[nic]
            continue
        old = [one for one in before.get(interface, ()) if one in link.addresses and one != nic.address]
        for command in _commands(nic, interface, link, old):
            outcome = run(command)
            if outcome.code != 0:
                yield f"{nic.name}: {' '.join(command)}: {outcome.error_line}"
        if nic.shared:
            yield from kernel_files.apply(root, shared(interface))
        now[interface] = [nic.address] if nic.address else []
        routed[nic] = interface
    _remember(root, before, now)
    yield from rail_routes.configure(routed, run)


def _commands(nic: NicSettings, interface: str, link: Interface, old: Sequence[str]) -> Iterator[list[str]]:
    """Yield the commands that change an interface to its desired settings; `old` are addresses from an earlier run."""
    if nic.mtu and link.mtu != nic.mtu:
        yield ["ip", "link", "set", "dev", interface, "mtu", str(nic.mtu)]
    for address in old:
        yield ["ip", "addr", "del", address, "dev", interface]
    if nic.address and nic.address not in link.addresses:
        yield ["ip", "addr", "add", nic.address, "dev", interface]
    if not link.up:
        yield ["ip", "link", "set", "dev", interface, "up"]


def drift(root: Root, devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], run: Runner) -> Iterator[Finding]:
    """Compare the rails' interfaces; a missing device is reported with its name."""
    yield from rail_routes.drift(dict(interfaces(devices, nics)), run)
    for nic, interface in interfaces(devices, nics):
        if not interface:
            if find(devices, nic):
                yield Finding(
                    "interface",
                    f"network interface of {nic.name}",
                    "present",
                    "none",
                    "modprobe ib_ipoib on InfiniBand; dmesg",
                )
            continue
        try:
            link = read_link(interface, run)
        except LinkError as error:
            yield Finding("interface", f"network interface of {nic.name}", "present", str(error), "ip link")
            continue
        setting = f"of {nic.name} ({interface})"
        if nic.address and nic.address not in link.addresses:
            yield Finding("address", f"address {setting}", nic.address, ", ".join(link.addresses) or "none", _RESTART)
        if nic.mtu and link.mtu != nic.mtu:
            yield Finding("mtu", f"MTU {setting}", str(nic.mtu), str(link.mtu), _RESTART)
        if not link.up:
            yield Finding("interface", f"interface {setting}", "up", "down", _RESTART)
        if nic.shared:
            for row in kernel_files.drift(root, shared(interface)):
                yield replace(row, remedy=_RESTART)
            # systemd-sysctl sets them again whenever the interface appears.
            keys = {sysctl.dotted(one.path[len("proc/sys/") :]): one.value for one in shared(interface)}
            for row in sysctl.conflicts(root, keys):
                yield replace(row, remedy=f"exclude {interface} there, by a line with a dash and only the key")


def _ours(root: Root) -> dict[str, list[str]]:
    """Return interface -> addresses that an earlier run of this boot set."""
    try:
        found = json.loads(root.text(OURS, needed=False) or "{}")
        return {str(key): [str(one) for one in value] for key, value in found.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def _remember(root: Root, before: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> None:
    if any(now.values()) or before:
        file = root.find(OURS)
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, json.dumps({**before, **now}) + "\n", sync=False)  # in memory
