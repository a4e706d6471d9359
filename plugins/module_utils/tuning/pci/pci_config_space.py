# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write PCI Express settings of the traffic between GPUs and NICs, in each function's configuration space.

ACS makes switches and root ports send traffic between two devices through the root complex; a larger read request lets NICs read more at
once; relaxed ordering lets writes of NICs pass each other. A reset of the device, and every boot, restores the firmware's values.

A kernel that is locked down, as with Secure Boot, refuses writes to a configuration space (LOCKDOWN_PCI_ACCESS, in integrity already):
then all are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...common.finding import WARNING, Finding
from ...common.sysfs import Root
from ...gpu.devices.gpu_devices import PCI
from .machine_topology import pci_path

BRIDGE, ETHERNET, INFINIBAND = "0x0604", "0x0200", "0x0207"
# The capability of PCI Express, its control word and the bits of the read request in it; ACS among the extended ones.
_EXPRESS, _CONTROL, _REQUEST, _RELAXED = 0x10, 8, 12, 1 << 4
_ACS, _ACS_CONTROL = 0x000D, 6
_FIX = "systemctl restart bedplate-tuning"
_LOCKDOWN = "sys/kernel/security/lockdown"
# SMBIOS's BIOS information (DSP0134, type 0), and the bit in it with which firmware says that the machine is virtual.
_BIOS, _BIOS_BYTE, _BIOS_VIRTUAL = "sys/firmware/dmi/entries/0-0/raw", 0x13, 1 << 4


class Function:
    """The configuration space of a PCI function; sysfs shows all of it to root only."""

    def __init__(self, root: Root, address: str) -> None:
        self.address = address
        self._path = root.find(f"{PCI}/{address}/config")
        self._config = self._path.read_bytes()

    def _word(self, at: int) -> int:
        return int.from_bytes(self._config[at : at + 2], "little")

    def _capability(self, wanted: int) -> int:
        """Return the offset of a capability, 0 if it is absent. The number of steps is limited: a broken chain may be a circle."""
        at = self._config[0x34] & ~3 if len(self._config) > 0x40 and self._word(6) & 0x10 else 0
        for _unused in range(48):
            if not at or at + 2 > len(self._config) or self._config[at] == 0xFF:
                return 0
            if self._config[at] == wanted:
                return at
            at = self._config[at + 1] & ~3
        return 0

    def _extended(self, wanted: int) -> int:
        at = 0x100
        for _unused in range(480):
            head = int.from_bytes(self._config[at : at + 4], "little")
            if at < 0x100 or head in (0, 0xFFFFFFFF):
                return 0
            if head & 0xFFFF == wanted:
                return at
            at = head >> 20
        return 0

    @property
    def acs(self) -> int | None:
        """Return the control word of ACS, 0 if it is inactive; None if the function has no ACS."""
        at = self._extended(_ACS)
        return self._word(at + _ACS_CONTROL) if at else None

    @property
    def read_request(self) -> int | None:
        """Return the largest read request in bytes; None if the function is not PCI Express."""
        at = self._capability(_EXPRESS)
        return 128 << (self._word(at + _CONTROL) >> _REQUEST & 7) if at else None

    @property
    def relaxed_ordering(self) -> bool:
        """Return whether the function may let its writes pass each other."""
        at = self._capability(_EXPRESS)
        return bool(at and self._word(at + _CONTROL) & _RELAXED)

    def switch_acs_off(self) -> None:
        """Write the control word of ACS."""
        self._write(self._extended(_ACS) + _ACS_CONTROL, 0)

    def request(self, count: int) -> None:
        """Write the largest read request."""
        at = self._capability(_EXPRESS) + _CONTROL
        bits = (count // 128).bit_length() - 1
        self._write(at, self._word(at) & ~(7 << _REQUEST) | bits << _REQUEST)

    def relax_ordering(self) -> None:
        """Write that the function may let its writes pass each other."""
        at = self._capability(_EXPRESS) + _CONTROL
        self._write(at, self._word(at) | _RELAXED)

    def _write(self, at: int, value: int) -> None:
        with self._path.open("r+b", buffering=0) as file:
            file.seek(at)
            file.write(value.to_bytes(2, "little"))
        self._config = self._path.read_bytes()


def is_virtual(root: Root) -> bool:
    """Return whether this is a virtual machine, whose hypervisor controls PCI: by the CPU's flag, or by the firmware (arm64)."""
    lines = (root.text("proc/cpuinfo", needed=False) or "").splitlines()
    if any("hypervisor" in line.split() for line in lines if line.startswith("flags")):
        return True
    bios = root.raw(_BIOS, needed=False) or b""
    # Behind the formatted part, whose length is the second byte, are texts: firmware before SMBIOS 2.4 has one in the place of this byte.
    return len(bios) > _BIOS_BYTE < bios[1] and bool(bios[_BIOS_BYTE] & _BIOS_VIRTUAL)


def lockdown(root: Root) -> str:
    """Return the mode in which the kernel is locked down, `integrity` or `confidentiality`; "" if it is not."""
    words = (root.text(_LOCKDOWN, needed=False) or "").split()
    mode = next((word[1:-1] for word in words if word.startswith("[")), "none")
    return "" if mode == "none" else mode


def _functions(root: Root, kinds: Sequence[str]) -> Iterator[Function]:
    for address in root.names(PCI):
        if (root.text(f"{PCI}/{address}/class", needed=False) or "")[:6] in kinds:
            yield Function(root, address)


def bridges(root: Root) -> list[Function]:
    """Return the ports of switches and of the root complex that have ACS."""
    return [one for one in _functions(root, (BRIDGE,)) if one.acs is not None]


def nics(root: Root) -> list[Function]:
    """Return the NICs with RDMA. A virtual function has the settings of its physical function."""
    found = _functions(root, (ETHERNET, INFINIBAND))
    return [
        one
        for one in found
        if one.read_request
        and root.names(f"{PCI}/{one.address}/infiniband")
        and not root.exists(f"{PCI}/{one.address}/physfn")
    ]


def strict_nics(root: Root, relaxed: Mapping[str, Any]) -> list[Function]:
    """Return the NICs whose writes wait for each other. Below root ports of `not_below`, (vendor, first and last device), they must."""

    def must(address: str) -> bool:
        port = f"{PCI}/{pci_path(root, address)[0]}"
        vendor, device = (root.text(f"{port}/{name}", needed=False) or "" for name in ("vendor", "device"))
        return any(vendor == known and first <= device <= last for known, first, last in relaxed["not_below"])

    return [one for one in nics(root) if not one.relaxed_ordering and not must(one.address)]


def apply(root: Root, settings: Mapping[str, Any]) -> list[str]:
    """Apply acs_off, read_request (0: unchanged) and relaxed_ordering (null: unchanged); return the failures.

    Change nothing in a virtual machine, or where the kernel is locked down.
    """
    if is_virtual(root) or lockdown(root):
        return []
    request, relaxed = settings["read_request"], settings["relaxed_ordering"]
    failed: list[str] = []
    if settings["acs_off"]:
        failed += _mend(bridges(root), lambda one: one.acs == 0, Function.switch_acs_off, "ACS stays on")
    if request:
        text = f"refused a read request of {request} bytes"
        failed += _mend(nics(root), lambda one: one.read_request == request, lambda one: one.request(request), text)
    if relaxed:
        found = strict_nics(root, relaxed)
        failed += _mend(found, lambda one: one.relaxed_ordering, Function.relax_ordering, "refused relaxed ordering")
    return failed


def _mend(
    found: Sequence[Function], is_right: Callable[[Function], bool], mend: Callable[[Function], None], text: str
) -> Iterator[str]:
    for one in found:
        if not is_right(one):
            mend(one)
            if not is_right(one):
                yield f"PCI function {one.address}: {text}"


def drift(root: Root, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the settings of the functions; where the kernel is locked down, one finding has all differences."""
    if is_virtual(root):
        return
    wanted, relaxed = settings["read_request"], settings["relaxed_ordering"]
    acs = [one for one in bridges(root) if one.acs] if settings["acs_off"] else []
    requests = [one for one in nics(root) if one.read_request != wanted] if wanted else []
    strict = strict_nics(root, relaxed) if relaxed else []
    if mode := lockdown(root):
        yield from _locked(mode, acs, requests, wanted, strict)
        return
    for one in acs:
        yield Finding("acs", f"ACS of the PCI port {one.address}", "off", f"on (control word {one.acs:#06x})", _FIX)
    for one in requests:
        setting = f"PCIe read request of the NIC {one.address}"
        yield Finding("read-request", setting, f"{wanted} bytes", f"{one.read_request} bytes", _FIX)
    for one in strict:
        yield Finding("relaxed-ordering", f"PCIe relaxed ordering of the NIC {one.address}", "on", "off", _FIX)


def _locked(
    mode: str, acs: Sequence[Function], requests: Sequence[Function], wanted: int, strict: Sequence[Function]
) -> Iterator[Finding]:
    """Yield a warning about the settings that a kernel in lockdown does not let anyone write."""
    found, keep = [], []
    if acs:
        found.append(f"ACS on in {len(acs)} PCI ports, such as {acs[0].address}")
        keep.append("node_tuning_acs: keep")
    if requests:
        found.append(f"read requests other than {wanted} bytes in {len(requests)} NICs, such as {requests[0].address}")
        keep.append("node_tuning_read_request: 0")
    if strict:
        found.append(f"relaxed ordering off in {len(strict)} NICs, such as {strict[0].address}")
        keep.append("node_tuning_relaxed_ordering: keep")
    if found:
        text = f"{' and '.join(found)}: the kernel is locked down ({mode}) and refuses to change them"
        remedy = f"turn off Secure Boot or set them in the firmware; to accept them, set {' and '.join(keep)}"
        yield Finding("lockdown", "PCI Express settings", "", text, remedy, WARNING)
