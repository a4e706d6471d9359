"""A disk of a folder: both boot loaders and an ext4, read back by the tools that machines use."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.image import disk
from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.bedplate.cluster.plugins.module_utils.image.tools import BuildError, call, need

UUID = "9b1a6a3e-52b5-4f0c-8d55-0bed91a7e000"
pytestmark = pytest.mark.skipif(shutil.which("mcopy") is None, reason="no mtools on this machine")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    grub = tmp_path / "root/boot/grub/i386-pc"
    grub.mkdir(parents=True)
    (grub / "boot.img").write_bytes(b"B" * 0x5C + struct.pack("<Q", 1) + b"B" * (512 - 0x5C - 8))
    core = b"C" * 500 + struct.pack("<QHH", 2, 9, 0x820) + b"D" * (9 * 512 - 7)
    (grub / "core.img").write_bytes(core)
    (tmp_path / "root/file").write_text("content\n")
    return tmp_path / "root"


def test_a_disk(root: Path, tmp_path: Path) -> None:
    raw, shim = tmp_path / "raw", tmp_path / "shim"
    shim.write_bytes(b"shim")
    disk.make(
        root, {"EFI/BOOT/BOOTX64.EFI": shim, "EFI/debian/grub.cfg": shim}, raw, disk.Disk(128 << 20, UUID, "BED91A7E")
    )
    text = subprocess.run(["/usr/sbin/sfdisk", "--json", str(raw)], capture_output=True, check=True, text=True).stdout
    table = json.loads(text)["partitiontable"]
    assert [(one["name"], one["start"] * 512) for one in table["partitions"]] == [
        ("bios", 1 << 20),
        ("esp", 2 << 20),
        ("root", disk.ROOT_MIB << 20),
    ]
    place = f"{raw}?offset={disk.ROOT_MIB << 20}"
    assert subprocess.run(["/usr/sbin/e2fsck", "-fn", place], capture_output=True).returncode == 0
    assert (
        subprocess.run(["/usr/sbin/debugfs", "-R", "cat /file", place], capture_output=True, text=True).stdout
        == "content\n"
    )
    read = subprocess.run(
        ["mtype", "-i", f"{raw}@@{2 << 20}", "::/EFI/BOOT/BOOTX64.EFI"], capture_output=True, check=True
    )
    assert read.stdout == b"shim"
    data = raw.read_bytes()
    # boot.img loads the first sector of the BIOS boot partition, and core.img the sectors behind it.
    assert struct.unpack_from("<Q", data, 0x5C) == (2048,)
    # Behind the code are the disk's identifier and the protective MBR.
    assert (data[440:512] != b"B" * 72, data[450], data[510:512]) == (True, 0xEE, b"\x55\xaa")
    assert struct.unpack_from("<QHH", data, (1 << 20) + 500) == (2049, 9, 0x820)


def test_a_core_image_with_another_list(root: Path, tmp_path: Path) -> None:
    (root / "boot/grub/i386-pc/core.img").write_bytes(b"C" * 500 + struct.pack("<QHH", 2, 3, 0x820) + b"D" * 512)
    with pytest.raises(BuildError, match=r"core\.img"):
        disk.make(root, {}, tmp_path / "raw", disk.Disk(128 << 20, UUID, "BED91A7E"))


@pytest.mark.parametrize(("name", "size"), [("boot.img", 511), ("boot.img", 1024), ("core.img", (1 << 20) + 512)])
def test_a_boot_loader_of_another_size(root: Path, tmp_path: Path, name: str, size: int) -> None:
    core = b"C" * 500 + struct.pack("<QHH", 2, -(-size // 512) - 1, 0x820)
    (root / "boot/grub/i386-pc" / name).write_bytes(core.ljust(size, b"D")[:size])
    with pytest.raises(
        BuildError, match=rf"GRUB's boot\.img has .* and core\.img {size if name == 'core.img' else ''}"
    ):
        disk.make(root, {}, tmp_path / "raw", disk.Disk(128 << 20, UUID, "BED91A7E"))


def test_a_disk_that_is_no_multiple_of_a_mib(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="not a multiple of 1 MiB"):
        disk.make(root, {}, tmp_path / "raw", disk.Disk((128 << 20) + 512, UUID, "BED91A7E"))
    assert not (tmp_path / "raw").exists()


def test_a_program_that_fails_is_named() -> None:
    with pytest.raises(BuildError, match=r"sh -c exit 3: exit status 3"):
        call(["sh", "-c", "exit 3"])


def test_a_program_that_is_missing() -> None:
    with pytest.raises(BuildError, match="package-of-it"):
        need({"no-such-program": "package-of-it", "sh": "dash"})


def test_a_recipe_has_a_name() -> None:
    assert Recipe().digest == Recipe().digest != Recipe(packages=("chrony",)).digest
    assert Recipe(packages=("chrony", "curl")).installed.count("curl") == 1
