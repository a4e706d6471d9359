# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the link of each rail: carrier, state of the port, physical state, rate, active MTU. An interface may be up without a link."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..common.command import Runner
from ..common.finding import Finding
from ..common.sysfs import Root
from .rdma_devices import CLASS, NicSettings, RdmaDevice, find

_CABLE = "check cable, transceiver and switch port; {tool}"
# Required MTU of the interface, so that a RoCE packet of 4096 bytes fits into one frame.
_LARGE, _ACTIVE = 4200, "4096"


def findings(
    root: Root, devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], expected: dict[str, Any], run: Runner
) -> Iterator[Finding]:
    """Compare the links of all present rails.

    `expected` may state `rate` in Gbit/s, `rates` of NICs with another rate, by name, and `ethernet`.
    """
    for nic in nics:
        device = find(devices, nic) if nic.rail else None
        if device is not None:
            yield from _link(root, nic, device, expected, run)


def _link(root: Root, nic: NicSettings, device: RdmaDevice, expected: dict[str, Any], run: Runner) -> Iterator[Finding]:
    port = f"{CLASS}/{device.name}/ports/1"
    who = f"{nic.name} ({device.interface})" if device.interface else nic.name
    ethernet = device.layer == "Ethernet"
    remedy = _CABLE.format(tool=f"ethtool {device.interface}" if ethernet else f"ibstat {device.name}; iblinkinfo")
    dead = False
    state, physical = _word(root, f"{port}/state"), _word(root, f"{port}/phys_state")
    if state not in ("ACTIVE", ""):
        dead = True
        fix = remedy if ethernet or physical != "LinkUp" else "check that a subnet manager runs: sminfo; opensm's log"
        yield Finding("link-state", f"port state of {who}", "ACTIVE", state, fix)
    if physical not in ("LinkUp", ""):
        dead = True
        yield Finding("link-physical", f"physical state of {who}", "LinkUp", physical, remedy)
    if device.interface:
        yield from _interface(root, device.interface, who, remedy, dead)
    rate = re.match(r"\s*([\d.]+)", root.text(f"{port}/rate", needed=False) or "")
    planned = (expected.get("rates") or {}).get(nic.name) or expected.get("rate")
    if rate and planned and not dead and device.pci and float(rate[1]) < float(planned):
        yield Finding("link-rate", f"rate of {who}", f"{planned:g} Gbit/s", f"{float(rate[1]):g} Gbit/s", remedy)
    if expected.get("ethernet") and nic.mtu >= _LARGE and not dead:
        yield from _mtu(device, who, run)


def _word(root: Root, path: str) -> str:
    """Return the word of `4: ACTIVE`; "" if the driver shows none."""
    return (root.text(path, needed=False) or "").rpartition(":")[2].strip()


def _interface(root: Root, name: str, who: str, remedy: str, dead: bool) -> Iterator[Finding]:
    """Compare carrier and state of the network interface; an interface that is down is a finding of `links`."""
    try:
        carrier = root.find(f"sys/class/net/{name}/carrier").read_text().strip()
    except OSError:
        return  # the kernel returns an error while the interface is down
    state = root.text(f"sys/class/net/{name}/operstate", needed=False) or ""
    if carrier == "0":
        yield Finding("link-carrier", f"carrier of {who}", "a link", f"no carrier ({state})", remedy)
    elif state in ("down", "lowerlayerdown", "dormant") and not dead:
        yield Finding("link-carrier", f"state of {who}", "up", state, remedy)


def _mtu(device: RdmaDevice, who: str, run: Runner) -> Iterator[Finding]:
    """Compare the MTU that RDMA uses: it differs from the interface's, and no file of the kernel shows it."""
    found = re.search(r"^\s*active_mtu:\s*(\d+)", run(["ibv_devinfo", "-d", device.name]).stdout, re.MULTILINE)
    if found and found[1] != _ACTIVE:
        remedy = "the interface's MTU was raised after the device appeared: reload its driver, or set the interface down and up"
        yield Finding("link-mtu", f"active MTU of {who}", _ACTIVE, found[1], remedy)
