# SPDX-License-Identifier: GPL-3.0-or-later
"""IPMI: ipmitool against ipmi_sim of OpenIPMI, and against a double for boot flags, which ipmi_sim never marks as valid."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.ipmi import (
    CDROM,
    NONE,
    PXE,
    BootFlags,
    IpmiBmc,
    boot_flags,
    read_boot,
    read_power,
    set_boot,
    set_power,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account

real = pytest.mark.tools("ipmi_sim", "ipmitool")
LAN = """\
name "gpu001"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{chassis}"
  user 1 true "" "" user 10 none md2 md5 straight
  user 2 true "root" "ipmi-canary" admin 10 none md2 md5 straight
"""
COMMANDS = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nmc_enable 0x20\n"
CHASSIS = """\
#!/bin/sh
echo "$@" >>{folder}/calls
case "$1 $2" in
"get power") echo "power:$(cat {folder}/power)" ;;
"get boot") echo "boot:none" ;;
"set power") [ -e {folder}/stuck ] || echo "$3" >{folder}/power ;;
esac
exit 0
"""
VALID = """\
Boot parameter version: 1
Boot parameter 5 is valid/unlocked
Boot parameter data: e014000000
 Boot Flags :
   - Boot Flag Valid
   - Options apply to only next boot
   - BIOS EFI boot
   - Boot Device Selector : Force Boot from CD/DVD
"""


@dataclass
class Simulator:
    bmc: IpmiBmc
    folder: Path

    def calls(self) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith("set")]


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[Simulator]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    chassis = tmp_path / "chassis"
    chassis.write_text(CHASSIS.format(folder=tmp_path))
    chassis.chmod(0o755)
    for name, text in (
        ("power", "0"),
        ("calls", ""),
        ("lan.conf", LAN.format(port=port, chassis=chassis)),
        ("commands", COMMANDS),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "state").mkdir()
    command = ["ipmi_sim", "-c", "lan.conf", "-f", "commands", "-s", "state", "-n"]
    account = Account("root", "ipmi-canary")
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        bmc = IpmiBmc("gpu001", "127.0.0.1", account, port, seconds=10, settle_s=0.3, poll_s=0.05)
        _wait_for(bmc)
        yield Simulator(bmc, tmp_path)
        process.send_signal(signal.SIGKILL)


def _wait_for(bmc: IpmiBmc) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            read_power(bmc)
        except BmcError:
            if time.monotonic() > until:
                raise
        else:
            return


@real
def test_power_with_ipmi_sim(simulator: Simulator) -> None:
    bmc = simulator.bmc
    assert read_power(bmc) == "off"
    assert not set_power(bmc, "off").changed
    assert set_power(bmc, "on").changed
    assert not set_power(bmc, "on").changed
    reset = set_power(bmc, "reset")
    assert (reset.changed, reset.is_proven) == (True, False)
    assert set_power(bmc, "cycle").is_proven
    assert set_power(bmc, "off", read_only=True).changed
    assert read_power(bmc) == "on"
    assert set_power(bmc, "off").before == "on"
    assert set_power(bmc, "reset").changed
    assert simulator.calls() == [
        "set power 1",
        "set reset 1",
        "set power 0",
        "set power 1",
        "set power 0",
        "set power 1",
    ]


@real
def test_power_that_is_not_taken(simulator: Simulator) -> None:
    (simulator.folder / "stuck").touch()
    with pytest.raises(BmcError) as caught:
        set_power(simulator.bmc, "on")
    assert (caught.value.kind, caught.value.expected, caught.value.found) == (errors.NOT_TAKEN, "on", "off")


@real
def test_boot_flags_that_ipmi_sim_drops_are_not_believed(simulator: Simulator) -> None:
    assert read_boot(simulator.bmc).is_off
    assert not set_boot(simulator.bmc, NONE).changed
    with pytest.raises(BmcError) as caught:
        set_boot(simulator.bmc, CDROM)
    assert (caught.value.kind, caught.value.expected, caught.value.found) == (
        errors.NOT_TAKEN,
        "cdrom UEFI once",
        "none",
    )


@real
def test_wrong_password_is_refused_without_the_password(simulator: Simulator) -> None:
    with pytest.raises(BmcError) as caught:
        read_power(replace(simulator.bmc, account=Account("root", "wrong-canary")))
    assert caught.value.kind == errors.REFUSED
    assert "canary" not in f"{caught.value} {caught.value!r} {simulator.bmc!r}"


DOUBLE = """\
#!/bin/sh
# A double of ipmitool with boot flags that become valid.
echo "$@" >>{folder}/arguments
echo "$IPMI_PASSWORD" >{folder}/password
case "$*" in
*"bootdev none") rm -f {folder}/device {folder}/efi ;;
*"bootdev "*)
  case "$*" in
  *cdrom*) echo "Force Boot from CD/DVD" >{folder}/device ;;
  *pxe*) echo "Force PXE" >{folder}/device ;;
  esac
  case "$*" in *options=efiboot) [ -e {folder}/drops ] || touch {folder}/efi ;; esac ;;
*"bootparam get 5")
  if [ -e {folder}/device ]; then
    echo "   - Boot Flag Valid"; echo "   - Options apply to only next boot"
    [ -e {folder}/efi ] && echo "   - BIOS EFI boot " || echo "   - BIOS PC Compatible (legacy) boot "
    echo "   - Boot Device Selector : $(cat {folder}/device)"
  else
    echo "   - Boot Flag Invalid"; echo "   - Boot Device Selector : No override"
  fi ;;
*) {other} ;;
esac
"""


def double(folder: Path, other: str = "exit 3") -> IpmiBmc:
    tool = folder / "ipmitool"
    tool.write_text(DOUBLE.format(folder=folder, other=other))
    tool.chmod(0o755)
    return IpmiBmc(
        "gpu001", "192.0.2.1", Account("root", "ipmi-canary"), seconds=1, settle_s=0.1, poll_s=0.02, tool=str(tool)
    )


@pytest.mark.parametrize("is_efi", [True, False])
@pytest.mark.parametrize("device", [CDROM, PXE])
def test_boot_device_once_and_cleared(tmp_path: Path, device: str, is_efi: bool) -> None:
    bmc = double(tmp_path)
    assert set_boot(bmc, device, is_efi=is_efi, read_only=True).changed
    assert read_boot(bmc).is_off
    assert set_boot(bmc, device, is_efi=is_efi).changed
    assert read_boot(bmc) == BootFlags(device, True, is_efi, True)
    assert not set_boot(bmc, device, is_efi=is_efi).changed
    assert set_boot(bmc, NONE).before == str(BootFlags(device, True, is_efi, True))
    assert not set_boot(bmc, NONE).changed


def test_dropped_efi_flag_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "drops").touch()
    with pytest.raises(BmcError) as caught:
        set_boot(double(tmp_path), CDROM)
    assert (caught.value.expected, caught.value.found) == ("cdrom UEFI once", "cdrom legacy once")


def test_password_is_in_the_environment_alone(tmp_path: Path) -> None:
    read_boot(double(tmp_path))
    assert (tmp_path / "password").read_text() == "ipmi-canary\n"
    arguments = (tmp_path / "arguments").read_text()
    assert arguments == "-I lanplus -C 3 -H 192.0.2.1 -p 623 -U root -E chassis bootparam get 5\n"
    assert "IPMI_PASSWORD" not in os.environ


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ("echo 'Error: Unable to establish IPMI v2 / RMCP+ session' >&2; exit 1", errors.REFUSED),
        ("echo 'Error: Node busy' >&2; exit 1", errors.BUSY),
        ("echo 'Could not open socket!' >&2; exit 1", errors.UNREACHABLE),
        ('echo "bad $IPMI_PASSWORD" >&2; exit 1', errors.OTHER),
        ("exit 3", errors.OTHER),
        ("echo garbage", errors.OTHER),
        ("exec sleep 5", errors.TIMEOUT),
    ],
)
def test_each_failure_of_ipmitool(tmp_path: Path, other: str, kind: str) -> None:
    with pytest.raises(BmcError) as caught:
        read_power(double(tmp_path, other))
    assert caught.value.kind == kind
    assert "canary" not in str(caught.value)


def test_missing_ipmitool(tmp_path: Path) -> None:
    with pytest.raises(BmcError) as caught:
        read_power(replace(double(tmp_path), tool=str(tmp_path / "nothing")))
    assert caught.value.kind == errors.MISSING


def test_boot_flags_of_ipmitool() -> None:
    assert boot_flags(VALID) == BootFlags(CDROM, True, True, True)
    assert boot_flags("").is_off
    assert not boot_flags(VALID.replace("CD/DVD", "Remote Something")).is_off


@pytest.mark.parametrize("call", [lambda bmc: set_power(bmc, "sleep"), lambda bmc: set_boot(bmc, "floppy")])
def test_unknown_state_is_refused(tmp_path: Path, call: object) -> None:
    with pytest.raises(ValueError, match="is not a"):
        call(double(tmp_path))  # type: ignore[operator]
