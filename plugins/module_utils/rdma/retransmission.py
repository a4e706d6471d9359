# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn off the retransmission of mlx5 for lossy networks on lossless Ethernet, by mlxreg of NVIDIA's MFT or mstreg of mstflint.

The register is read and written by access to PCI configuration space, which a kernel in lockdown refuses. A reset of the NIC restores the
firmware's values. While jobs run nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..common.command import Runner
from ..common.finding import NOTICE, Finding
from ..common.sysfs import Root
from ..primitives.reboot_notes import jobs
from ..tuning.pci.pci_config_space import is_virtual, lockdown
from .rdma_devices import NicSettings, RdmaDevice

_TOOLS = ("mlxreg", "mstreg")
_FIELD = re.compile(r"^\s*(\w+)\s*\|\s*(0x[0-9a-fA-F]+)\s*$", re.MULTILINE)
Rail = tuple[NicSettings, RdmaDevice]


class RegisterError(Exception):
    """A tool that did not show or write the register."""


def apply(root: Root, rails: Sequence[Rail], wanted: Mapping[str, Any], run: Runner) -> Iterator[str]:
    """Turn the fields off; yield the failures. Nothing is written where `obstacle` names a reason, or while jobs run."""
    tool = _tool(root)
    if not _nics(rails) or not tool or obstacle(root) or jobs(root.find("proc")):
        return
    for nic, device in _nics(rails):
        try:
            if on := _on(_read(tool, device, wanted, run), wanted):
                values = ",".join(f"{name}=0x0" for name in on)
                _answer(run, [*_command(tool, device, wanted), "--set", values, "--yes"])
                if still := _on(_read(tool, device, wanted, run), wanted):
                    yield f"{nic.name}: {', '.join(still)} stays on"
        except RegisterError as error:
            yield f"{nic.name}: {error}"


def drift(root: Root, rails: Sequence[Rail], wanted: Mapping[str, Any], run: Runner) -> Iterator[Finding]:
    """Compare the fields of each rail; one notice where they cannot be read, which claims nothing."""
    if not _nics(rails):
        return
    tool = _tool(root)
    if not tool or obstacle(root):
        reason = obstacle(root) or "neither mlxreg nor mstreg is installed"
        text = f"not compared on {len(_nics(rails))} rails: {reason}"
        remedy = "rdma_retransmission: keep accepts the firmware's values"
        yield Finding("retransmission-unread", f"register {wanted['register']}", "", text, remedy, NOTICE)
        return
    busy = jobs(root.find("proc"))
    for nic, device in _nics(rails):
        where = f"retransmission of {nic.name} ({wanted['register']})"
        try:
            fields = _read(tool, device, wanted, run)
        except RegisterError as error:
            yield Finding("retransmission-unread", where, "", str(error), "rdma_retransmission: keep", NOTICE)
            continue
        if fields.get(wanted["unless"]):
            text = f"not compared: {wanted['unless']} is on"
            remedy = "rdma_retransmission: keep accepts it"
            yield Finding("retransmission-unread", where, "", text, remedy, NOTICE)
        elif on := _on(fields, wanted):
            found = f"on: {', '.join(on)}"
            if busy:
                remedy = f"systemctl restart bedplate-rdma when no job runs: {'; '.join(busy)}"
                yield Finding("retransmission", where, "off", found, remedy, NOTICE)
            else:
                yield Finding("retransmission", where, "off", found, "systemctl restart bedplate-rdma; who changed it?")


def obstacle(root: Root) -> str:
    """Return why this machine does not let anyone write the register; "" if nothing is known to prevent it."""
    if is_virtual(root):
        return "this is a virtual machine"
    mode = lockdown(root)
    return f"the kernel is locked down ({mode})" if mode else ""


def _nics(rails: Sequence[Rail]) -> list[Rail]:
    return [
        (nic, device)
        for nic, device in rails
        if device.driver == "mlx5_core" and device.pci and device.layer != "InfiniBand"
    ]


def _tool(root: Root) -> str:
    places = ("usr/bin", "usr/sbin", "usr/local/bin")
    return next((name for name in _TOOLS if any(root.exists(f"{place}/{name}") for place in places)), "")


def _command(tool: str, device: RdmaDevice, wanted: Mapping[str, Any]) -> list[str]:
    return [tool, "-d", device.pci, "--reg_name", str(wanted["register"])]


def _read(tool: str, device: RdmaDevice, wanted: Mapping[str, Any], run: Runner) -> dict[str, int]:
    """Return field -> value of the register. Raises RegisterError if the tool prints none of the fields."""
    text = _answer(run, [*_command(tool, device, wanted), "--get"])
    found = {name: int(value, 16) for name, value in _FIELD.findall(text)}
    if not set(wanted["fields"]).intersection(found):
        raise RegisterError(f"{tool} prints no field of {wanted['register']}: {' '.join(text.split())[:120]!r}")
    return found


def _on(fields: Mapping[str, int], wanted: Mapping[str, Any]) -> list[str]:
    """Return the fields that are on, and that the NIC lets anyone set; none where `unless` is on."""
    if fields.get(wanted["unless"]):
        return []
    return [
        name
        for name in wanted["fields"]
        if fields.get(name) and fields.get(f"{name.removesuffix('_en')}_field_select", 1)
    ]


def _answer(run: Runner, command: list[str]) -> str:
    outcome = run(command)
    if outcome.code != 0:
        raise RegisterError(f"{' '.join(command)}: {outcome.error_line}")
    return outcome.stdout
