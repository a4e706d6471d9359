# SPDX-License-Identifier: GPL-3.0-or-later
"""Power and one-time boot device by IPMI, for BMCs without a usable Redfish. Each write is read back.

ipmitool receives the password in its environment (-E). `-C 3` names the cipher suite: without it each call probes for ten seconds.
IPMI proves nothing about the BMC's identity: use it only on a network of BMCs alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from .errors import BUSY, MISSING, NOT_TAKEN, OTHER, REFUSED, TIMEOUT, UNREACHABLE, BmcError, hidden
from .power import CYCLE, OFF, ON, RESET, WANTED
from .read_back import Change
from .transport import Account

T = TypeVar("T")
PXE, CDROM, NONE = "pxe", "cdrom", "none"
_SELECTORS = {
    "No override": NONE,
    "Force PXE": PXE,
    "Force Boot from CD/DVD": CDROM,
    "Force Boot from default Hard-Drive": "disk",
    "Force Boot into BIOS Setup": "bios",
}
_TEXTS = (
    ("Unable to establish IPMI v2 / RMCP+ session", REFUSED),
    ("RAKP", REFUSED),
    ("Insufficient privilege", REFUSED),
    ("Node busy", BUSY),
    ("Address lookup", UNREACHABLE),
    ("Could not open socket", UNREACHABLE),
)
_REMEDIES = {
    REFUSED: "Check the address, IPMI over LAN at the BMC, and name and password of the secret of this BMC.",
    BUSY: "Wait until the machine is through POST, then run again.",
    UNREACHABLE: "Check the address, the cable and the network of BMCs.",
}


@dataclass(frozen=True)
class IpmiBmc:
    """Address and account of one node's BMC. `seconds` bounds one call, `settle_s` the time until a write shows."""

    node: str
    address: str
    account: Account = field(repr=False)
    port: int = 623
    seconds: float = 30.0
    settle_s: float = 60.0
    poll_s: float = 1.0
    tool: str = "ipmitool"


@dataclass(frozen=True)
class BootFlags:
    """Boot flags: `device`: `none`, `pxe`, `cdrom`, `disk`, `bios` or `other`. `is_valid`: the next boot obeys them."""

    device: str
    is_valid: bool
    is_efi: bool
    is_once: bool

    @property
    def is_off(self) -> bool:
        """Return whether the machine boots in its own order."""
        return not self.is_valid or self.device == NONE

    def __str__(self) -> str:
        if self.is_off:
            return NONE
        return f"{self.device} {'UEFI' if self.is_efi else 'legacy'} {'once' if self.is_once else 'always'}"


def read_power(bmc: IpmiBmc) -> str:
    """Return `on` or `off`. Raises BmcError."""
    found = re.search(r"Chassis Power is (on|off)", _call(bmc, "chassis", "power", "status"))
    if not found:
        raise BmcError(OTHER, bmc.node, "IPMI shows no power state", "Report the model of this BMC.")
    return found.group(1)


def set_power(bmc: IpmiBmc, wanted: str, *, read_only: bool = False) -> Change:
    """Reach a power state: `on`, `off`, `reset` (an off machine is turned on), or `cycle` (off, then on, each read back).

    IPMI shows no evidence of a reset, so the change is then not proven. Raises BmcError: kind not-taken if the state does not show.
    """
    if wanted not in WANTED:
        raise ValueError(f"{wanted!r} is not a power state: {', '.join(WANTED)}")
    before = read_power(bmc)
    if before == wanted or read_only:
        return Change(before != wanted, wanted, before, "chassis power")
    if wanted == RESET and before == ON:
        _call(bmc, "chassis", "power", "reset")
        _power_reached(bmc, ON)
        return Change(True, wanted, before, "chassis power", is_proven=False)
    if wanted == OFF or (wanted == CYCLE and before == ON):
        _call(bmc, "chassis", "power", "off")
        _power_reached(bmc, OFF)
    if wanted != OFF:
        _call(bmc, "chassis", "power", "on")
        _power_reached(bmc, ON)
    return Change(True, wanted, before, "chassis power")


def read_boot(bmc: IpmiBmc) -> BootFlags:
    """Return the boot flags (parameter 5). Raises BmcError."""
    return boot_flags(_call(bmc, "chassis", "bootparam", "get", "5"))


def boot_flags(output: str) -> BootFlags:
    """Return the boot flags in the output of `chassis bootparam get 5`."""
    selector = re.search(r"Boot Device Selector : (.+)", output)
    device = _SELECTORS.get(selector.group(1).strip(), "other") if selector else NONE
    return BootFlags(
        device,
        "Boot Flag Valid" in output,
        "BIOS EFI boot" in output,
        "Options apply to only next boot" in output,
    )


def set_boot(bmc: IpmiBmc, device: str, *, is_efi: bool = True, read_only: bool = False) -> Change:
    """Let the next boot, and only that one, be from `pxe` or `cdrom`; `none` ends an override.

    Raises BmcError: kind not-taken if the flags do not show, as with BMCs that drop the EFI flag.
    """
    if device not in (PXE, CDROM, NONE):
        raise ValueError(f"{device!r} is not a boot device: pxe, cdrom, none")
    expected = BootFlags(device, device != NONE, is_efi, True)

    def is_taken(found: BootFlags) -> bool:
        return found.is_off if device == NONE else found == expected

    before = read_boot(bmc)
    if is_taken(before) or read_only:
        return Change(not is_taken(before), str(expected), str(before), "boot flags")
    options = ["options=efiboot"] if is_efi and device != NONE else []
    _call(bmc, "chassis", "bootdev", device, *options)
    found = _poll(bmc, lambda: read_boot(bmc), is_taken)
    if not is_taken(found):
        raise _not_taken(bmc, "the boot device", str(expected), str(found))
    return Change(True, str(expected), str(before), "boot flags")


def _power_reached(bmc: IpmiBmc, wanted: str) -> None:
    found = _poll(bmc, lambda: read_power(bmc), lambda one: one == wanted)
    if found != wanted:
        raise _not_taken(bmc, f"power {wanted}", wanted, found)


def _poll(bmc: IpmiBmc, read: Callable[[], T], is_taken: Callable[[T], bool]) -> T:
    until = time.monotonic() + bmc.settle_s
    while True:
        found = read()
        if is_taken(found) or time.monotonic() >= until:
            return found
        time.sleep(bmc.poll_s)


def _not_taken(bmc: IpmiBmc, what: str, expected: str, found: str) -> BmcError:
    remedy = "Read the log of the BMC; restart the BMC or update its firmware if its log shows no reason."
    return BmcError(NOT_TAKEN, bmc.node, f"{what} was accepted and not taken", remedy, expected=expected, found=found)


def _call(bmc: IpmiBmc, *arguments: str) -> str:
    """Return the output of one call of ipmitool."""
    command = [
        bmc.tool,
        "-I",
        "lanplus",
        "-C",
        "3",
        "-H",
        bmc.address,
        "-p",
        str(bmc.port),
        "-U",
        bmc.account.user,
        "-E",
    ]
    variables = {**os.environ, "IPMI_PASSWORD": bmc.account.password}
    what = f"ipmitool {' '.join(arguments)}"
    try:
        ran = subprocess.run(
            [*command, *arguments],
            env=variables,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=bmc.seconds,
            check=False,
        )
    except FileNotFoundError:
        raise BmcError(MISSING, bmc.node, f"{bmc.tool} not found", "Install ipmitool on the control node.") from None
    except subprocess.TimeoutExpired:
        remedy = "Check the network of BMCs, and whether the BMC hangs."
        raise BmcError(TIMEOUT, bmc.node, f"{what}: no answer within {bmc.seconds:g} s", remedy) from None
    if ran.returncode:
        said = hidden(" ".join((ran.stderr or ran.stdout).split())[:500], [bmc.account.password])
        kind = next((kind for text, kind in _TEXTS if text in said), OTHER)
        raise BmcError(kind, bmc.node, f"{what} failed: {said}", _REMEDIES.get(kind, "Act on the message of ipmitool."))
    return ran.stdout
