"""A bare machine with Secure Boot installs an image from its medium, boots it by itself, and refuses what was not ordered."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab import host as lab_host
from lab.guest.bare import BareMachine
from lab.shell import LabError, say
from tests.kit.provision import metal
from tests.kit.provision.metal import Host

pytestmark = pytest.mark.metal
TRIES = 3
"""QEMU 7.2 panics a guest now and then: then an operator makes a new order, and it is counted."""


@pytest.fixture(scope="module")
def provision(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    lab_host.require_root()
    lab_host.install_missing(metal=True)
    with metal.provision_host(tmp_path_factory.mktemp("provision")) as one:
        yield one


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareMachine]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with BareMachine(tmp_path_factory.mktemp("machine") / "gpu001", port) as one:
        yield one
        say("metal", f"panics: {one.panics}")


def run(machine: BareMachine, arm: Callable[[], tuple[str, Path]], serial: str = "") -> tuple[str, Path]:
    """Arm an order and start the machine from its medium, until it is off. Return the order's id and its medium."""
    for number in range(TRIES):
        order, medium = arm()
        machine.switch_on(medium, serial)
        try:
            seconds = machine.wait_off()
        except LabError:
            if not machine.panics or number == TRIES - 1:
                raise
            continue
        say("metal", f"off after {seconds:.0f} s")
        return order, medium
    raise AssertionError("not reached")


@pytest.mark.step
def test_it_installs(provision: Host, machine: BareMachine) -> None:
    order, medium = run(machine, lambda: provision.arm(wipe="yes"))
    state = provision.state(order)
    assert state["state"] == "written", f"{state}\n{machine.console()}"
    assert machine.disk.read_bytes()[510:512] == b"\x55\xaa"
    # The medium is still in, as if nobody had ejected it: the machine does not install again.
    before = machine.digest()
    machine.switch_on(medium)
    say("metal", f"refused after {machine.wait_off():.0f} s")
    assert "REFUSED: the order server does not allow the claim: 409" in machine.console()
    assert machine.digest() == before


@pytest.mark.step
def test_it_boots_by_itself(provision: Host, machine: BareMachine) -> None:
    keys = provision.folder / "operator", provision.folder / "known_hosts"
    for number in range(TRIES):
        started = time.monotonic()
        machine.switch_on()
        try:
            machine.ssh("true", *keys, seconds=600)
        except LabError:
            if number == TRIES - 1:
                raise
            machine.panics += 1
            machine.power_off()
            continue
        break
    say("metal", f"SSH after {time.monotonic() - started:.0f} s")
    found = machine.ssh("hostname; cat /etc/bedplate/image; cat /proc/cmdline", *keys, seconds=60)
    assert found.splitlines()[0] == "gpu001"
    assert f"image={provision.image['sha256']}\n" in found
    assert "Secure boot enabled" in machine.ssh("dmesg", *keys, seconds=60)
    # The root file system has grown to the disk.
    assert int(machine.ssh("df --output=size -m / | tail -1", *keys, seconds=60)) > 850
    machine.ssh("systemctl poweroff --no-block; exit 0", *keys, seconds=60)
    machine.wait_off(300)


@pytest.mark.step
def test_it_keeps_its_data(provision: Host, machine: BareMachine) -> None:
    before = machine.digest()
    order, _medium = run(machine, provision.arm)
    state = provision.state(order)
    assert (state["state"], machine.digest()) == ("refused", before)
    assert "holds: vda1 vda2(vfat) vda3(ext4) gpt PMBR data-at-byte-0" in str(state["reason"])
    assert "seed" not in str(state)


@pytest.mark.step
def test_another_kernel_does_not_start(provision: Host, machine: BareMachine, tmp_path: Path) -> None:
    """Secure Boot: one bit of the medium's kernel differs from what Debian signed."""
    desk = provision.desk
    shutil.copytree(desk.boot, tmp_path / "boot")
    kernel = bytearray((tmp_path / "boot/vmlinuz").read_bytes())
    kernel[len(kernel) // 2] ^= 1
    (tmp_path / "boot/vmlinuz").write_bytes(kernel)
    before = machine.digest()
    provision.desk = replace(desk, boot=tmp_path / "boot")
    try:
        order, medium = provision.arm(wipe="yes")
    finally:
        provision.desk = desk
    machine.switch_on(medium)
    machine.wait_console("bad shim signature", 180)
    machine.power_off()
    assert (provision.state(order)["state"], machine.digest()) == ("armed", before)


@pytest.mark.step
def test_another_machine_refuses(provision: Host, machine: BareMachine) -> None:
    before = machine.digest()
    order, _medium = run(machine, lambda: provision.arm(wipe="yes"), serial="SN-IMPOSTOR")
    state = provision.state(order)
    assert (state["state"], machine.digest()) == ("refused", before)
    assert "SN-IMPOSTOR" in str(state["reason"])


@pytest.mark.step
def test_another_disk_refuses(provision: Host, machine: BareMachine) -> None:
    before = machine.digest()
    order, _medium = run(machine, lambda: provision.arm(wipe="yes", disk="DISK-GPU002"))
    state = provision.state(order)
    assert (state["state"], machine.digest()) == ("refused", before)
    assert "0 disks" in str(state["reason"])
