"""Which NIC and which disk are the machine's: what only looks like them, what appears late, and what cannot be read."""

from __future__ import annotations

import pytest

from tests.kit.provision import faulty
from tests.kit.provision.faulty import WORKS_AND_FAILS
from tests.kit.provision.machine import DISK_SERIAL, MAC, MIB, SERIAL, Machine
from tests.unit.provision.test_installer import _ext4, _gpt, refuses


def installs(node: Machine, site) -> None:
    """Install, and demand that the other disk is as it was."""
    other = node.other.read_bytes()
    order = site.arm_for(node)
    ended = node.install()
    assert (ended.code, site.state(order)) == (0, "written"), ended.console
    assert node.other.read_bytes() == other


def test_an_interface_without_a_device_is_no_nic(site, node: Machine) -> None:
    node.add_nic("bond0", MAC)
    (node.sys / "class/net/bond0/device").rmdir()
    installs(node, site)


@pytest.mark.parametrize("name", ["loop0", "ram0", "zram0", "sr0", "fd0", "dm-0", "md0"])
def test_what_is_no_disk(site, node: Machine, name: str) -> None:
    node.add_disk(name, DISK_SERIAL)
    installs(node, site)


def test_a_block_device_without_a_device_is_no_disk(site, node: Machine) -> None:
    node.add_disk("nbd0", DISK_SERIAL)
    (node.sys / "block/nbd0/device").rmdir()
    installs(node, site)


def test_a_hidden_path_of_the_disk_is_no_second_disk(site, node: Machine) -> None:
    node.add_disk("nvme0c0n1", DISK_SERIAL)
    (node.sys / "block/nvme0c0n1/hidden").write_text("1\n")
    installs(node, site)


@pytest.mark.parametrize("late", ["class/net/eth0", "block/vda", "class/net/eth0/carrier"])
def test_a_device_that_appears_late(site, node: Machine, late: str) -> None:
    node.seconds = 3
    path, hidden = node.sys / late, node.root / "hidden"
    path.rename(hidden)
    faulty.at_words(node, "sleep", " 1 ", f"/bin/mv {hidden} {path}", 2)
    installs(node, site)


@pytest.mark.parametrize(
    ("late", "state"), [("class/net/eth0", "armed"), ("block/vda", "refused"), ("class/net/eth0/carrier", "armed")]
)
def test_a_sleep_that_fails_is_no_patience(site, node: Machine, late: str, state: str) -> None:
    node.seconds = 3
    order = site.arm_for(node)
    (node.sys / late).rename(node.root / "hidden")
    faulty.at_words(node, "sleep", " 1 ", "exit 1")
    refuses(node, site, order, "sleep does not work", state=state)


def test_a_nic_without_a_link(site, node: Machine) -> None:
    (node.sys / "class/net/eth0/carrier").write_text("0\n")
    refuses(node, site, site.arm_for(node), "eth0 has no link", state="armed")


@pytest.mark.parametrize("text", [None, "", "11111111\n"])
def test_a_kernel_without_random_numbers(site, node: Machine, text: str | None) -> None:
    path = node.proc / "sys/kernel/random/uuid"
    path.unlink()
    if text is not None:
        path.write_text(text)
    refuses(node, site, site.arm_for(node), "no random numbers", state="armed")


def test_a_serial_number_of_two_lines(site, node: Machine) -> None:
    (node.sys / "class/dmi/id/product_serial").write_text(f"{SERIAL}\nSN2\n")
    refuses(node, site, site.arm_for(node), "shows no serial number")


@pytest.mark.parametrize("other", [None, "", "\n", "          \n"])
def test_another_disk_without_a_serial_number(site, node: Machine, other: str | None) -> None:
    path = node.sys / "block/vdb/serial"
    path.unlink()
    if other is not None:
        path.write_text(other)
    installs(node, site)


def test_the_first_serial_number_counts(site, node: Machine) -> None:
    (node.sys / "block/vda/device/serial").write_text("X\n")
    (node.sys / "block/vda/device/vpd_pg80").write_bytes(b"\0\x80\0\1X")
    installs(node, site)


def test_a_serial_number_of_two_lines_or_in_a_folder_cannot_be_read(site, node: Machine) -> None:
    path = node.sys / "block/vdb/serial"
    path.write_text(f"{DISK_SERIAL}\n{DISK_SERIAL}\n")
    refuses(node, site, site.arm_for(node), "vdb cannot be read")
    path.unlink()
    path.mkdir()
    site.server.orders.release(site.server.orders.open_order("gpu001"))
    node.boot("2" * 36)
    refuses(node, site, site.arm_for(node), "vdb cannot be read")


def test_a_page_80_that_fails_in_the_middle(site, node: Machine) -> None:
    block = node.sys / "block/vda"
    (block / "serial").unlink()
    (block / "device/vpd_pg80").write_bytes(b"\0\x80\0\x0a" + DISK_SERIAL.encode())
    faulty.at_words(node, "dd", "vpd_pg80", WORKS_AND_FAILS)
    refuses(node, site, site.arm_for(node), "vda cannot be read")


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_a_node_that_is_no_disk(site, node: Machine, kind: str) -> None:
    order = site.arm_for(node)
    node.disk.unlink()
    if kind == "folder":
        node.disk.mkdir()
    ended = node.install()
    assert (ended.code, site.state(order)) == (1, "refused")
    assert ended.reason.endswith("is not a disk")


def test_a_disk_whose_state_cannot_be_read(site, node: Machine) -> None:
    (node.sys / "block/vda/ro").unlink()
    refuses(node, site, site.arm_for(node), "read-only, or its state")


def test_a_disk_whose_two_ends_are_hardly_apart(site, node: Machine) -> None:
    (node.sys / "block/vda/size").write_text(f"{15 * MIB // 512}\n")
    refuses(node, site, site.arm_for(node, raw_bytes=str(4 * MIB)), f"has {15 * MIB} bytes")


def test_a_partition_in_use(site, node: Machine) -> None:
    (node.sys / "block/vda/vda1/holders/md0").mkdir(parents=True)
    refuses(node, site, site.arm_for(node, wipe="yes"), "in use by md0")


@pytest.mark.parametrize("table", ["mounts", "swaps"])
def test_what_is_in_use_is_unknown(site, node: Machine, table: str) -> None:
    (node.proc / table).unlink()
    refuses(node, site, site.arm_for(node, wipe="yes"), f"{table} cannot be read")


def test_a_partition_that_cannot_be_read(site, node: Machine) -> None:
    part = node.sys / "block/vda/vda1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    _gpt(node.disk)
    refuses(node, site, site.arm_for(node, wipe="yes"), "wipefs cannot read vda1")


def test_what_a_partition_holds_is_shown(site, node: Machine) -> None:
    part = node.sys / "block/vda/vda1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    with (node.dev / "vda1").open("wb") as stream:
        stream.truncate(4 * MIB)
    _ext4(node.dev / "vda1")
    refuses(node, site, site.arm_for(node), "holds: vda1(ext")
