"""Orders with their media: the token is on the medium and nowhere else, and a release removes it."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import archive, arming, medium, order_text
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import RefusedError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.seed import SeedFile
from tests.unit.provision.test_orders import HASH, VALUES

MACHINE = {key: VALUES[key] for key in ("node", "serial", "mac", "disk", "wipe", "address", "gateway")}
IMAGE = {"sha256": HASH, "raw_sha256": HASH, "raw_bytes": 24 << 20, "root_start": 2 << 20, "release": "bookworm"}
FILES = {"/etc/hostname": SeedFile(b"gpu001\n")}
pytestmark = pytest.mark.skipif(shutil.which("xorriso") is None, reason="no xorriso on this machine")


@pytest.fixture
def desk(tmp_path: Path) -> arming.Desk:
    boot, served = tmp_path / "boot", tmp_path / "served"
    boot.mkdir()
    (served / "media").mkdir(parents=True)
    for name in medium.BOOT_FILES:
        (boot / name).write_bytes(name.encode() * 1000)
    (tmp_path / "ca.pem").write_text("CERTIFICATE\n")
    return arming.Desk(tmp_path / "orders", served, boot, tmp_path / "ca.pem", "https://10.0.0.1:8443", "console=ttyS0")


def extract(iso: Path, name: str, folder: Path) -> bytes:
    target = folder / "extracted"
    target.unlink(missing_ok=True)
    words = ["xorriso", "-osirrox", "on", "-indev", str(iso), "-extract", name, str(target)]
    subprocess.run(words, check=True, capture_output=True)
    return target.read_bytes()


def test_a_medium(desk: arming.Desk, tmp_path: Path) -> None:
    armed = arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    iso = desk.served / armed["medium"][1:]
    assert stat.S_IMODE(iso.stat().st_mode) == 0o600
    assert armed["id"] not in armed["medium"]
    files = unpack(extract(iso, "/order.cpio", tmp_path))
    assert files["bedplate/order/ca.pem"] == b"CERTIFICATE\n"
    order = order_text.parse(files["bedplate/order/order"].decode())
    assert order.id == armed["id"]
    assert order.image == f"https://10.0.0.1:8443/images/{HASH}.img.zst"
    grub = extract(iso, "/boot/grub/grub.cfg", tmp_path).decode()
    assert "boot=bedplate panic=0 console=ttyS0" in grub
    assert order.token not in grub
    assert [
        path for path in desk.orders.rglob("*") if path.is_file() and order.token.encode() in path.read_bytes()
    ] == []
    assert arming.states(desk, ["gpu001", "gpu002"])["gpu001"]["state"] == "armed"
    arming.release(desk, armed["id"])
    arming.release(desk, armed["id"])
    assert not iso.exists()
    assert arming.states(desk, ["gpu001"]) == {}
    (tmp_path / "extracted").unlink()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and order.token.encode() in path.read_bytes()] == []


def test_a_medium_that_cannot_be_made_leaves_no_order(desk: arming.Desk) -> None:
    (desk.boot / "vmlinuz").unlink()
    with pytest.raises(medium.MediumError, match="vmlinuz"):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    assert arming.states(desk, ["gpu001"]) == {}
    assert list((desk.served / "media").iterdir()) == []


def test_a_second_order_is_refused(desk: arming.Desk) -> None:
    arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    with pytest.raises(RefusedError):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    assert len(list((desk.served / "media").iterdir())) == 1


def unpack(data: bytes) -> dict[str, bytes]:
    """Read an archive by the description of the format, not by the code that wrote it."""
    found, place = {}, 0
    while True:
        assert data[place : place + 6] == b"070701"
        fields = [int(data[place + 6 + 8 * n : place + 14 + 8 * n], 16) for n in range(13)]
        name = data[place + 110 : place + 110 + fields[11]]
        assert name.endswith(b"\0")
        place += -(-(110 + fields[11]) // 4) * 4
        if name == b"TRAILER!!!\0":
            return found
        if fields[1] >> 12 == 8:
            found[name[:-1].decode()] = data[place : place + fields[6]]
        place += -(-fields[6] // 4) * 4


def test_an_archive() -> None:
    files = {"a/b/c": b"12345", "a/b/d": b"", "e": b"1234"}
    assert unpack(archive.pack(files)) == files
    if shutil.which("cpio"):
        listed = subprocess.run(["cpio", "-t", "--quiet"], input=archive.pack(files), capture_output=True, check=True)
        assert listed.stdout.split() == [b"a", b"a/b", b"a/b/c", b"a/b/d", b"e"]
