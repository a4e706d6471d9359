# SPDX-License-Identifier: GPL-3.0-or-later
"""Find who else configures the interface of a rail: netplan, NetworkManager, systemd-networkd, ifupdown, or the address of `management`.

bedplate-rdma owns the addresses of rails. Files that bedplate writes keep NetworkManager and systemd-networkd off (by PCI address), also
where these take every interface that they find. A file that names the interface itself is a second owner: that is refused with its place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ..common.command import Runner
from ..common.finding import Finding
from ..common.sysfs import Root
from . import rail_interfaces
from .rdma_devices import NicSettings, RdmaDevice

_SYSTEMD = ("etc/systemd/network", "run/systemd/network", "usr/lib/systemd/network")
OURS = "05-bedplate-"
"""How the names of bedplate's files for systemd-networkd begin: before netplan's 10-netplan-*, so that they win."""
_UNMANAGED = "unmanaged"
_RELEASE = {
    "NetworkManager": ("nmcli", "device", "set", "{}", "managed", "no"),
    "systemd-networkd": ("networkctl", "reload"),
}
_LIST = {"NetworkManager": "`nmcli device`", "systemd-networkd": "`networkctl`"}


@dataclass(frozen=True)
class _Format:
    """Files of an owner: folders, names, lines that name interfaces or MAC addresses, and lines that leave a whole file without effect."""

    owner: str
    folders: tuple[str, ...]
    names: str
    lines: re.Pattern[str]
    idle: re.Pattern[str] = field(default_factory=lambda: re.compile("(?!)"))


_FORMATS = (
    _Format("netplan", ("etc/netplan", "run/netplan", "usr/lib/netplan"), "*.yaml", re.compile("")),
    # Installers write a profile for each interface they find, which starts nothing by itself.
    _Format(
        "NetworkManager",
        tuple(f"{top}/NetworkManager/system-connections" for top in ("etc", "run", "usr/lib")),
        "*",
        re.compile(r"(interface-name|mac-address)\s*="),
        re.compile(r"autoconnect\s*=\s*(false|no|0)\b", re.IGNORECASE),
    ),
    _Format(
        "NetworkManager",
        ("etc/sysconfig/network-scripts",),
        "ifcfg-*",
        re.compile("(DEVICE|HWADDR)="),
        re.compile(r"ONBOOT=[\"']?(false|no|0)\b", re.IGNORECASE),
    ),
    _Format("systemd-networkd", _SYSTEMD, "*.network", re.compile(r"(Name|MACAddress|PermanentMACAddress)\s*=")),
    _Format("ifupdown", ("etc/network", "etc/network/interfaces.d"), "*", re.compile(r"(iface|auto|allow-\S+)\s")),
)
_WORD = re.compile(r"[A-Za-z0-9][\w.:-]*")


def refusals(
    root: Root, devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], management: str, run: Runner
) -> Iterator[Finding]:
    """Yield every other owner of the interfaces of NICs with an address."""
    for nic, interface in rail_interfaces.interfaces(devices, nics):
        if not (interface and nic.address):
            continue
        who = f"interface {interface} of {nic.name}"
        if management in rail_interfaces.addresses_of(interface, run):
            fix = "correct `pci` of the NIC in the cluster file, or the address in `management`"
            yield Finding("rail-owner", who, "no address of `management`", management, fix)
        mac = (root.text(f"sys/class/net/{interface}/address", needed=False) or interface).lower()
        for place, owner in _files(root, interface, mac):
            fix = "remove the interface there, or remove the rail from `networks`; then apply the change with the tool that owns the file"
            yield Finding(
                "rail-owner",
                who,
                "configured by bedplate-rdma alone",
                f"configured by {owner}, too",
                fix,
                overridden_by=place,
            )


def _files(root: Root, interface: str, mac: str) -> Iterator[tuple[str, str]]:
    """Yield (FILE:LINE, owner) of files that name an interface or its MAC address; a pattern for several interfaces is not an owner."""
    for kind in _FORMATS:
        for folder in kind.folders:
            for name in root.names(folder):
                # netplan's own file is a finding of its source.
                if (
                    not fnmatchcase(name, kind.names)
                    or name.startswith(OURS)
                    or (kind.folders == _SYSTEMD and "netplan" in name)
                ):
                    continue
                if root.find(f"{folder}/{name}").is_file() and (
                    number := _line(root, f"{folder}/{name}", kind, {interface, mac})
                ):
                    yield f"/{folder}/{name}:{number}", kind.owner


def _line(root: Root, path: str, kind: _Format, wanted: set[str]) -> int:
    """Return the number of the first line that has one of the words; 0 without such a line, and for a file without effect."""
    lines = [line.partition(" #")[0].strip() for line in root.lines(path)]
    if any(kind.idle.match(line) for line in lines):
        return 0
    for number, line in enumerate(lines, 1):
        if kind.lines.match(line) and not line.startswith("#"):
            words = (word.rstrip(":") for word in _WORD.findall(line))
            if any(word in wanted or word.lower() in wanted for word in words):
                return number
    return 0


def managers(interface: str, run: Runner) -> Iterator[str]:
    """Yield the programs that manage an interface now; a program that is missing or does not run manages nothing."""
    outcome = run(["nmcli", "-g", "GENERAL.STATE", "device", "show", interface])
    if outcome.code == 0 and outcome.stdout.strip() and _UNMANAGED not in outcome.stdout:
        yield "NetworkManager"
    outcome = run(["networkctl", "--no-pager", "--no-legend", "list", interface])
    words = outcome.stdout.split()
    if outcome.code == 0 and len(words) >= 5 and words[-1] != _UNMANAGED:
        yield "systemd-networkd"


def release(
    devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], management: str, run: Runner, pause: float = 0.2
) -> Iterator[str]:
    """Release the rails from running programs, as bedplate's files do from the next boot on; yield the failures.

    `pause` in seconds is between two looks at a program that has not let go yet: it would remove the addresses that follow.
    """
    for nic, interface in _owned(devices, nics):
        if management in rail_interfaces.addresses_of(interface, run):
            continue
        for owner in managers(interface, run):
            outcome = run([interface if word == "{}" else word for word in _RELEASE[owner]])
            looks = 25
            while outcome.code == 0 and looks and owner in managers(interface, run):
                time.sleep(pause)
                looks -= 1
            if outcome.code != 0 or not looks:
                yield f"{interface} of {nic.name} is managed by {owner}, which does not let go: {outcome.error_line}"


def drift(
    root: Root, devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], management: str, run: Runner
) -> Iterator[Finding]:
    """Compare the files of other owners, and the running programs: none manages the interface of a rail with an address."""
    yield from refusals(root, devices, nics, management, run)
    for nic, interface in _owned(devices, nics):
        for owner in managers(interface, run):
            fix = f"systemctl restart bedplate-rdma; {_LIST[owner]} lists the owners"
            expected, found = "managed by bedplate-rdma alone", f"managed by {owner}"
            yield Finding("rail-manager", f"interface {interface} of {nic.name}", expected, found, fix)


def _owned(devices: Sequence[RdmaDevice], nics: Sequence[NicSettings]) -> Iterator[tuple[NicSettings, str]]:
    """Yield the NICs whose interface bedplate's files keep for bedplate-rdma."""
    for nic, interface in rail_interfaces.interfaces(devices, nics):
        if interface and nic.address and nic.pci:
            yield nic, interface
