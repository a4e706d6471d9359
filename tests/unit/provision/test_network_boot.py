"""Machines that boot from the network: only an open order is answered, with files of a secret name, and a release removes them."""

from __future__ import annotations

import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import arming, network_boot, order_text
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.arming import Way
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.network_boot import (
    BIOS,
    HTTP,
    PXE,
    UEFI,
    NetworkBoot,
    NetworkBootError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_text import OrderError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import Orders
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.seed import SeedFile
from tests.kit.provision import network
from tests.unit.provision.test_arming import FILES, IMAGE, MACHINE, unpack

MAC = "52-54-00-be-d9-01"


@pytest.fixture
def folder(desk: arming.Desk) -> Iterator[Path]:
    """The folder with a running stand-in of dnsmasq."""
    made = network.make_folder(desk.orders.parent / "network")
    process = network.stand_in(made)
    yield made
    network.end(process)


def arm(desk: arming.Desk, folder: Path, method: str, firmware: str = UEFI, **other: str) -> dict[str, str]:
    own = replace(desk, network=NetworkBoot(folder))
    return arming.arm(own, {**MACHINE, **other}, IMAGE, FILES, 60, Way(method, firmware))


def release(desk: arming.Desk, folder: Path, order_id: str) -> None:
    arming.release(replace(desk, network=NetworkBoot(folder)), order_id)


def reloads(folder: Path, wanted: int) -> int:
    """Return the number of SIGHUPs, as soon as it is the wanted one."""
    until = time.monotonic() + 5
    while (found := (folder / "reloads").read_text().count("reload\n")) < wanted and time.monotonic() < until:
        time.sleep(0.02)
    return found


def left(folder: Path) -> list[str]:
    """Return what is in the folder besides its own folders."""
    own = {*network_boot.FOLDERS, "lock", "reloads"}
    return sorted(name for path in folder.rglob("*") if (name := str(path.relative_to(folder))) not in own)


@pytest.mark.parametrize("firmware", [UEFI, BIOS])
def test_pxe(desk: arming.Desk, folder: Path, firmware: str) -> None:
    armed = arm(desk, folder, PXE, firmware)
    assert armed["medium"] == ""
    order = armed["id"]
    mac, address, secret, lease = (folder / "hosts" / order).read_text().rstrip("\n").split(",")
    assert (mac, address, lease) == ("52:54:00:be:d9:01", "10.20.9.1", "15m")
    assert len(secret) == 40
    assert secret not in order
    machine, own = folder / "tftp" / MAC, folder / "tftp" / MAC / secret
    loader = (machine / ("boot.efi" if firmware == UEFI else "boot.0")).read_bytes()
    assert loader.startswith(b"shim.efi" if firmware == UEFI else b"grub-pxe.0")
    assert (own / "vmlinuz").read_bytes().startswith(b"vmlinuz")
    files = unpack((own / "order.cpio").read_bytes())
    text = order_text.parse(files["bedplate/order/order"].decode())
    assert (text.id, text.host_key) == (order, "machine")
    assert f"/{secret}/order.cpio" in (own / "boot.cfg").read_text()
    # Files without the secret name in their path do not contain it.
    open_files = [path for path in (folder / "tftp").rglob("*") if path.is_file() and secret not in str(path)]
    assert all(secret.encode() not in path.read_bytes() for path in open_files)
    assert open_files
    for path in [*folder.rglob("*")]:
        if path.is_file() and path.parent != folder:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert reloads(folder, 1) == 1
    release(desk, folder, order)
    assert (left(folder), reloads(folder, 2)) == ([], 2)
    release(desk, folder, order)
    assert (left(folder), reloads(folder, 2)) == ([], 2)


def test_only_the_user_of_the_daemon_reads_the_files(
    desk: arming.Desk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr(NetworkBoot, "_owner", lambda _self: (4711, 4712))
    monkeypatch.setattr(network_boot.os, "chown", lambda path, *owner: owners.update({str(path): owner}))
    monkeypatch.setattr(
        network_boot, "atomic_write", lambda path, _data, **given: owners.update({str(path): given["owner"]})
    )
    order = arm(desk, folder, PXE)["id"]
    made = [path for path in (*(folder / "tftp").rglob("*"), folder / "hosts" / order) if not path.is_symlink()]
    assert {owners.pop(str(path)) for path in made if path.is_dir()} == {(4711, 4712)}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()} == {0o700}
    assert set(owners.values()) == {(4711, 4712)}
    names = {Path(path).name.partition("-")[2] or Path(path).name for path in owners}
    assert {order, "order.cpio", "boot.cfg", "grub.cfg"} <= names
    assert len([path for path in owners if "/shared/" in path]) == 4


def test_a_daemon_that_ends_meanwhile(desk: arming.Desk, tmp_path: Path) -> None:
    made = network.make_folder(tmp_path / "network")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    NetworkBoot(made, daemons=lambda _folder: [ended.pid]).reload()


@pytest.mark.tools("xorriso")
def test_http_has_an_address_and_a_medium(desk: arming.Desk, folder: Path) -> None:
    armed = arm(desk, folder, HTTP, gateway="10.20.8.1")
    order = armed["id"]
    assert (desk.served / armed["medium"][1:]).exists()
    assert left(folder) == [f"hosts/{order}"]
    assert (folder / "hosts" / order).read_text() == "52:54:00:be:d9:01,10.20.9.1,15m\n"
    release(desk, folder, order)
    assert (left(folder), list((desk.served / "media").iterdir())) == ([], [])


def test_machines_have_files_of_their_own(desk: arming.Desk, folder: Path) -> None:
    orders = [
        arm(desk, folder, PXE)["id"],
        arm(desk, folder, PXE, node="gpu002", mac="52:54:00:be:d9:02", address="10.20.9.2/22")["id"],
    ]
    shared = set((folder / "shared").iterdir())
    release(desk, folder, orders[0])
    assert {path.name for path in (folder / "tftp").iterdir()} == {"52-54-00-be-d9-02"}
    assert set((folder / "shared").iterdir()) == shared
    release(desk, folder, orders[1])
    assert left(folder) == []


def test_the_files_of_another_order_of_the_same_nic_stay(desk: arming.Desk, folder: Path) -> None:
    order = arm(desk, folder, PXE)["id"]
    other = folder / "tftp" / MAC / "other"
    other.mkdir()
    (other / "order.cpio").write_text("x")
    release(desk, folder, order)
    assert (other / "order.cpio").exists()
    assert [path.name for path in other.parent.iterdir() if path.is_dir() and path.name != "grub"] == ["other"]


def test_only_dnsmasq_is_the_daemon(tmp_path: Path) -> None:
    """Another program with the same word, such as an editor, gets no signal."""
    words = [sys.executable, "-c", "input()", network_boot.command(tmp_path)[-1]]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as other:
        until = time.monotonic() + 5
        while words[-1].encode() not in Path(f"/proc/{other.pid}/cmdline").read_bytes() and time.monotonic() < until:
            time.sleep(0.02)
        assert network_boot.running(tmp_path) == []


def test_no_private_key_travels(desk: arming.Desk, folder: Path) -> None:
    own = replace(desk, network=NetworkBoot(folder))
    key = {"/etc/ssh/ssh_host_ed25519_key": SeedFile(b"-----BEGIN OPENSSH PRIVATE KEY-----\n", 0o600)}
    with pytest.raises(OrderError, match="ssh_host_ed25519_key"):
        arming.arm(own, MACHINE, IMAGE, key, 60, Way(PXE))
    assert arming.states(own, ["gpu001"]) == {}
    assert left(folder) == []


@pytest.mark.parametrize("method", [HTTP, PXE])
def test_nothing_is_armed_without_the_daemon(desk: arming.Desk, tmp_path: Path, method: str) -> None:
    for folder, says in ((tmp_path / "none", "not found"), (network.make_folder(tmp_path / "idle"), "does not run")):
        with pytest.raises(NetworkBootError, match=says):
            arm(desk, folder, method)
    with pytest.raises(NetworkBootError):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60, Way(method))
    assert arming.states(desk, ["gpu001"]) == {}
    assert list(desk.orders.glob("orders/*")) == []
    assert left(tmp_path / "idle") == []


@pytest.mark.parametrize("missing", ["vmlinuz", "grub-net.efi"])
def test_an_image_without_a_boot_file_leaves_nothing(desk: arming.Desk, folder: Path, missing: str) -> None:
    (desk.boot / missing).unlink()
    with pytest.raises(NetworkBootError, match=missing):
        arm(desk, folder, PXE)
    assert arming.states(desk, ["gpu001"]) == {}
    assert left(folder) == []


def test_only_the_own_address_claims(desk: arming.Desk, folder: Path) -> None:
    order = arm(desk, folder, PXE)["id"]
    text = next((folder / "tftp" / MAC).glob("*/order.cpio")).read_bytes()
    token = order_text.parse(unpack(text)["bedplate/order/order"].decode()).token
    orders = Orders(desk.orders)
    kept = orders.authorize(order, token)
    facts = {key: MACHINE[key] for key in ("serial", "mac", "disk")} | {"nonce": "a" * 36}
    with pytest.raises(Exception, match=r"10\.20\.9\.7"):
        orders.claim(kept, facts, "10.20.9.7")
    assert orders.claim(kept, facts, "10.20.9.1").startswith("claimed")


def test_the_configuration_answers_known_machines_alone(tmp_path: Path) -> None:
    lines = network_boot.configuration(tmp_path, "10.20.8.10", "10.20.8.0/22").splitlines()
    assert {"port=0", "listen-address=10.20.8.10", "dhcp-ignore=tag:!known", "tftp-unique-root=mac"} <= set(lines)
    # Files of another owner are not sent, and names of files are secrets.
    assert {"tftp-secure", "quiet-tftp", "quiet-dhcp"} <= set(lines)
    assert "dhcp-range=10.20.8.0,static,255.255.252.0,15m" in lines
