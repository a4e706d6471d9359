"""An image that was built elsewhere: what is read of it, and how it is placed on a provision host."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.image import site_image as reader
from ansible_collections.bedplate.cluster.plugins.module_utils.image.tools import BuildError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.medium import BOOT_FILES
from ansible_collections.bedplate.cluster.plugins.modules import site_image
from tests.kit.module import Module, result_of
from tests.kit.provision import small_image
from tests.kit.provision.small_image import SmallImage

pytestmark = pytest.mark.tools("zstd", "mke2fs", "sfdisk")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> SmallImage:
    return small_image.make(tmp_path_factory.mktemp("image"))


def test_hashes_sizes_and_the_root_are_read(image: SmallImage) -> None:
    assert reader.facts(image.path) == {
        "sha256": image.sha256,
        "bytes": image.path.stat().st_size,
        "raw_sha256": image.raw_sha256,
        "raw_bytes": image.raw_bytes,
        "root_start": small_image.ROOT_START,
    }


def test_a_file_that_is_cut_short_or_has_no_table_is_refused(image: SmallImage, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.write_bytes(image.path.read_bytes()[:-100])
    with pytest.raises(BuildError, match="cannot decompress"):
        reader.facts(cut)
    for head in (b"", bytes(1024), bytes(512) + b"EFI PART" + bytes(2000)):
        with pytest.raises(BuildError, match="GPT"):
            reader.last_partition(head)


def table(*starts: int, count: int = 128) -> bytes:
    """Return the begin of a disk whose GPT has partitions at these sectors."""
    rows = b"".join(bytes([1]) * 16 + bytes(16) + struct.pack("<QQ", start, start) + bytes(80) for start in starts)
    header = b"EFI PART" + bytes(64) + struct.pack("<QII", 2, count, 128) + bytes(4)
    return (bytes(512) + header.ljust(512, b"\0") + rows).ljust(1 << 20, b"\0")


def test_the_last_partition_is_the_one_that_begins_last() -> None:
    assert reader.last_partition(table(4096, 2048)) == 4096 * 512
    assert reader.last_partition(table(2048, count=1 << 31)) == 2048 * 512
    with pytest.raises(BuildError, match="no partition"):
        reader.last_partition(table())
    # A table that the first MiB does not have whole.
    with pytest.raises(BuildError, match="no partition"):
        reader.last_partition(table(2048)[: 1024 + 40])
    with pytest.raises(BuildError, match="no GPT"):
        reader.last_partition(table(2048)[:560])
    with pytest.raises(BuildError, match="no GPT"):
        reader.last_partition(table(2048).replace(b"EFI PART", b"EFI PARX"))


def test_a_host_without_zstd(image: SmallImage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "find", lambda _name: None)
    with pytest.raises(BuildError, match="Install the package zstd"):
        reader.facts(image.path)


class Host:
    """Folders of a provision host, with the boot files of a built image."""

    def __init__(self, folder: Path, image: SmallImage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._image, self._patch = folder, image, monkeypatch
        self.boot = folder / "images/kit/boot"
        self.boot.mkdir(parents=True)
        for name in BOOT_FILES:
            (self.boot / name).write_text(name)

    def call(self, check: bool = False, **other: Any) -> dict[str, Any]:
        """Return the result of the module."""
        given = {"source": "/x", "sha256": self._image.sha256, "stated_in": "", "key": None, "upload": None}
        given |= {"folder": str(self.folder / "images/tiny"), "served": str(self.folder / "served")}
        return result_of(self._patch, site_image, Module({**given, "boot": str(self.boot), **other}, check))

    def upload(self) -> str:
        """Return a copy of the image, as the action makes it."""
        copy = self.folder / "upload"
        copy.write_bytes(self._image.path.read_bytes())
        return str(copy)


@pytest.fixture
def host(tmp_path: Path, image: SmallImage, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, image, monkeypatch)


def test_an_image_is_placed_once_and_served(host: Host, image: SmallImage) -> None:
    assert host.call(check=True) == {"changed": True, "is_missing": True}
    assert host.call() == {"changed": False, "is_missing": True}
    done = host.call(upload=host.upload())
    assert (done["changed"], done["image"]["sha256"]) == (True, image.sha256)
    assert (host.folder / "served/images" / f"{image.sha256}.img.zst").read_bytes() == image.path.read_bytes()
    assert json.loads((host.folder / "images/tiny/image.json").read_text()) == done["image"]
    assert (host.folder / "images/tiny/boot/vmlinuz").read_text() == "vmlinuz"
    assert [host.call(check=one)["changed"] for one in (False, True)] == [False, False]


def test_a_copy_with_another_hash_replaces_nothing(host: Host) -> None:
    host.call(upload=host.upload())
    before = (host.folder / "images/tiny/image.json").read_text()
    done = host.call(sha256="0" * 64, upload=host.upload())
    assert done["failed"]
    assert "0" * 64 in done["msg"]
    assert (host.folder / "images/tiny/image.json").read_text() == before
    assert sorted(one.name for one in (host.folder / "images/tiny").iterdir()) == [
        "boot",
        "image.img.zst",
        "image.json",
    ]


def test_a_lost_name_is_served_again_and_missing_boot_files_are_an_error(host: Host, image: SmallImage) -> None:
    host.call(upload=host.upload())
    (host.folder / "served/images" / f"{image.sha256}.img.zst").unlink()
    assert host.call()["changed"]
    (host.boot / "efi.img").unlink()
    done = host.call()
    assert done["failed"]
    assert "efi.img not found" in done["msg"]
