"""Orders with their media: the token is on the medium and nowhere else, and a release removes it."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.provision import (
    archive,
    arming,
    medium,
    order_text,
    served_image,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import RefusedError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.seed import SeedFile
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.served_image import ImageError, read_image
from tests.unit.provision.test_orders import HASH, VALUES

MACHINE = {key: VALUES[key] for key in ("node", "serial", "mac", "disk", "wipe", "address", "gateway")}
IMAGE = {
    "sha256": hashlib.sha256(b"image").hexdigest(),
    "bytes": 5,
    "raw_sha256": HASH,
    "raw_bytes": 24 << 20,
    "root_start": 2 << 20,
    "release": "bookworm",
}
FILES = {"/etc/hostname": SeedFile(b"gpu001\n")}
pytestmark = pytest.mark.tools("xorriso")


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
    assert order.image == f"https://10.0.0.1:8443/images/{IMAGE['sha256']}.img.zst"
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


def test_a_medium_is_removed_where_its_making_was_stopped(desk: arming.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_boot: Path, _order: str, _ca: bytes, out: Path, _words: str) -> None:
        out.write_text("with the token")
        raise KeyboardInterrupt

    monkeypatch.setattr(arming, "make_medium", stopped)
    with pytest.raises(KeyboardInterrupt):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    assert arming.states(desk, ["gpu001"]) == {}
    assert list((desk.served / "media").iterdir()) == []


def test_xorriso_writes_a_private_file_and_its_failure_leaves_no_medium(
    desk: arming.Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []

    def fails(words: list[str], _seconds: float) -> Outcome:
        out = Path(words[words.index("-o") + 1])
        modes.append(stat.S_IMODE(out.stat().st_mode))
        out.write_text("cut")
        return Outcome(1, "", "No space left on device")

    monkeypatch.setattr(medium, "run", fails)
    with pytest.raises(medium.MediumError, match="No space left"):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    assert modes == [0o600]
    assert list((desk.served / "media").iterdir()) == []


def test_an_image_is_read_only_where_it_is_served_whole(desk: arming.Desk) -> None:
    folder = desk.served.parent / "images/trixie"
    with pytest.raises(ImageError, match=r"image\.json: No such file or directory\. .* provision_host\.yml"):
        read_image(desk.served.parent, "trixie", None)
    folder.mkdir(parents=True)
    (folder / "image.json").write_text(json.dumps(IMAGE))
    assert read_image(desk.served.parent, "trixie", None) == IMAGE
    (desk.served / "images" / f"{IMAGE['sha256']}.img.zst").write_bytes(b"IMAGE")
    with pytest.raises(ImageError, match="SHA-256"):
        read_image(desk.served.parent, "trixie", None)


def test_a_second_order_is_refused(desk: arming.Desk) -> None:
    arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    with pytest.raises(RefusedError):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    assert len(list((desk.served / "media").iterdir())) == 1


@pytest.mark.parametrize("wrong", ["missing", "cut", "other"])
def test_an_image_that_is_not_served(desk: arming.Desk, wrong: str) -> None:
    path = desk.served / "images" / f"{IMAGE['sha256']}.img.zst"
    path.unlink()
    if wrong != "missing":
        path.write_bytes({"cut": b"ima", "other": b"IMAGE"}[wrong])
    with pytest.raises(ImageError):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    assert arming.states(desk, ["gpu001"]) == {}


@pytest.mark.tools("minisign")
def test_a_signature(desk: arming.Desk, tmp_path: Path) -> None:
    path = desk.served / "images" / f"{IMAGE['sha256']}.img.zst"
    for name in ("site", "other"):
        words = ["minisign", "-G", "-W", "-p", str(tmp_path / f"{name}.pub"), "-s", str(tmp_path / f"{name}.key")]
        subprocess.run(words, check=True, capture_output=True)
    signed = replace(desk, public_key=tmp_path / "site.pub")
    with pytest.raises(ImageError, match="not signed"):
        arming.arm(signed, MACHINE, IMAGE, FILES, 60)
    subprocess.run(
        ["minisign", "-S", "-s", str(tmp_path / "other.key"), "-m", str(path)], check=True, capture_output=True
    )
    with pytest.raises(ImageError, match="not signed"):
        arming.arm(signed, MACHINE, IMAGE, FILES, 60)
    subprocess.run(
        ["minisign", "-S", "-s", str(tmp_path / "site.key"), "-m", str(path)], check=True, capture_output=True
    )
    assert arming.arm(signed, MACHINE, IMAGE, FILES, 60)["id"]


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


def test_nobody_else_may_read_what_is_in_an_archive() -> None:
    place, found = 0, {}
    data = archive.pack({"a/token": b"1234"})
    while not (name := data[place + 110 :].partition(b"\0")[0]).startswith(b"TRAILER"):
        fields = [int(data[place + 6 + 8 * n : place + 14 + 8 * n], 16) for n in range(13)]
        found[name] = fields[1:4]
        place += -(-(110 + fields[11]) // 4) * 4 + -(-fields[6] // 4) * 4
    assert found == {b"a": [0o040700, 0, 0], b"a/token": [0o100600, 0, 0]}


def test_a_host_without_xorriso(desk: arming.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(medium, "find", lambda _name: None)
    with pytest.raises(medium.MediumError, match="Install the package xorriso"):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60)
    assert arming.states(desk, ["gpu001"]) == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", None])
def test_an_image_without_its_facts(desk: arming.Desk, text: str | None) -> None:
    folder = desk.served.parent / "images/trixie"
    folder.mkdir(parents=True)
    if text is not None:
        (folder / "image.json").write_text(text)
    with pytest.raises(ImageError, match=r"image\.json: .*Build or copy the image to this host"):
        read_image(desk.served.parent, "trixie", None)


def test_an_image_of_another_size_is_not_read(desk: arming.Desk) -> None:
    (desk.served / "images" / f"{IMAGE['sha256']}.img.zst").write_bytes(b"image+")
    with pytest.raises(ImageError, match=r"6 bytes, and image\.json says 5"):
        arming.arm(desk, MACHINE, IMAGE, FILES, 60)


def test_a_host_without_minisign(desk: arming.Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_image, "find", lambda _name: None)
    with pytest.raises(ImageError, match="Install the package minisign"):
        arming.arm(replace(desk, public_key=tmp_path / "none.pub"), MACHINE, IMAGE, FILES, 60)


def test_an_archive() -> None:
    files = {"a/b/c": b"12345", "a/b/d": b"", "e": b"1234"}
    assert unpack(archive.pack(files)) == files
    if shutil.which("cpio"):
        listed = subprocess.run(["cpio", "-t", "--quiet"], input=archive.pack(files), capture_output=True, check=True)
        assert listed.stdout.split() == [b"a", b"a/b", b"a/b/c", b"a/b/d", b"e"]
