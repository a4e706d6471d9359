# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare machines install by UEFI HTTP boot and by PXE; nobody else is answered, and nobody after the release."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.arming import Way
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.network_boot import BIOS, HTTP, PXE, UEFI
from lab import host as lab_host
from lab.guest import firmware_variables
from lab.guest.bare import BareMachine, Identity, Wiring
from lab.shell import LabError, say
from tests.kit.provision import bridge, metal, network
from tests.kit.provision.bridge import NEIGHBOUR
from tests.kit.provision.metal import Host

pytestmark = [pytest.mark.metal, pytest.mark.tools("dnsmasq", "setpriv")]
TRIES = 3
"""QEMU 7.2 panics a guest now and then: then an operator makes a new order, and it is counted."""
OWN, OTHER = Identity().mac, "52:54:00:be:d9:77"


@pytest.fixture(scope="module")
def provision() -> Iterator[Host]:
    lab_host.require_root()
    lab_host.install_missing(metal=True)
    with (
        tempfile.TemporaryDirectory(prefix="bedplate-boot-") as name,
        bridge.bridge(),
        metal.provision_host(_open(Path(name)), (bridge.HOST, bridge.MACHINE)) as one,
        network.dnsmasq(Path(name) / "network", bridge.HOST, bridge.NETWORK),
    ):
        yield one


def _open(folder: Path) -> Path:
    """Let dnsmasq, which is not root, enter a folder."""
    folder.chmod(0o711)
    return folder


def machine(folder: Path, *, bios: bool = False) -> BareMachine:
    wiring = Wiring(bridge.TAP, bridge.MACHINE.partition("/")[0])
    return BareMachine(folder / "gpu001", 22, wiring=wiring, bios=bios)


def install(provision: Host, one: BareMachine, way: Way, start: Callable[[Path], None]) -> dict[str, object]:
    """Arm an order, start the machine until it is off, and return the state of the order."""
    for number in range(TRIES):
        order, medium = provision.arm(wipe="yes", way=way)
        start(medium)
        try:
            seconds = one.wait_off(1200)
        except LabError:
            if not one.panics or number == TRIES - 1:
                raise
            continue
        say("metal", f"{way.method} {way.firmware}: off after {seconds:.0f} s, panics: {one.panics}")
        return provision.state(order)
    raise AssertionError("not reached")


def boots(provision: Host, one: BareMachine, host_key: str) -> None:
    """Start the machine from its disk, and demand that it answers with a host key. It is switched off then."""
    known = provision.folder / "known_hosts"
    known.write_text(f"node {host_key}\n")
    for number in range(TRIES):
        one.switch_on()
        try:
            found = one.ssh("hostname; cat /etc/bedplate/image", provision.folder / "operator", known, 600)
        except LabError:
            if number == TRIES - 1:
                raise
            one.power_off()
            continue
        break
    one.power_off()
    assert found.startswith("gpu001\n")
    assert f"image={provision.image['sha256']}" in found


def tftp(path: str) -> bytes:
    """Return the first block of the answer to a TFTP request from a neighbour of the machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(b"\0\1" + path.encode() + b"\0octet\0", (bridge.HOST, 69))
        return client.recv(2048)


@pytest.mark.step
def test_only_a_machine_with_an_open_order_gets_an_address(provision: Host) -> None:
    address, folder = bridge.MACHINE.partition("/")[0], OWN.replace(":", "-")
    assert network.offer(NEIGHBOUR, OWN).address == ""
    for way in (Way(HTTP), Way(PXE, BIOS), Way(PXE, UEFI)):
        provision.arm(way=way)
        found = network.offer(NEIGHBOUR, OWN)
        assert found.address == address
        assert network.offer(NEIGHBOUR, OTHER).address == ""
        assert bool(found.name) == (way.method == PXE)
        if way.method == PXE:
            # A neighbour has the whole root, and does not know the secret name.
            for path in ("order.cpio", f"{folder}/order.cpio", f"../hosts/{provision.orders[-1]}"):
                assert tftp(path)[:2] == b"\0\5", path
            secret = f"{folder}/{found.name}/boot.cfg"
            assert tftp(secret)[:2] == b"\0\3"
    provision.release()
    assert network.offer(NEIGHBOUR, OWN).address == ""
    assert tftp(secret)[:2] == b"\0\5"
    # dnsmasq has read `hosts` at each order and each release, and still answers.
    provision.arm(way=Way(HTTP))
    assert network.offer(NEIGHBOUR, OWN).address == address
    provision.release()


@pytest.mark.step
def test_uefi_http_boot(provision: Host, tmp_path: Path) -> None:
    """As a BMC does with HttpBootUri: the next start boots a URL, once."""
    with machine(tmp_path) as one:
        ca = tmp_path / "cacerts"
        ca.write_bytes(firmware_variables.certificates(provision.desk.authority.read_text()))
        variables = one.folder / "variables"

        def start(medium: Path) -> None:
            url = f"{provision.desk.url}/media/{medium.name}"
            variables.write_bytes(firmware_variables.boot_url_next(variables.read_bytes(), url))
            one.switch_on(words=["-fw_cfg", f"name={firmware_variables.CA_FILE},file={ca}"])

        state = install(provision, one, Way(HTTP), start)
        assert state["state"] == "written", f"{state}\n{one.console()}"
        assert state["host_key"] == ""
        provision.release()
        assert network.offer(NEIGHBOUR, OWN).address == ""
        boots(provision, one, " ".join((provision.folder / "host.pub").read_text().split()[:2]))


@pytest.mark.step
@pytest.mark.parametrize("firmware", [BIOS, UEFI])
def test_pxe(provision: Host, tmp_path: Path, firmware: str) -> None:
    with machine(tmp_path, bios=firmware == BIOS) as one:
        state = install(provision, one, Way(PXE, firmware), lambda _medium: one.switch_on(pxe=True))
        assert state["state"] == "written", f"{state}\n{one.console()}"
        provision.release()
        assert network.offer(NEIGHBOUR, OWN).address == ""
        boots(provision, one, str(state["host_key"]))
