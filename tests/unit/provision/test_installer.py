"""The installer on disks that are files: it writes what was ordered, or leaves the disk as it is."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import order_text, seed
from tests.kit.provision.machine import DISK_SERIAL, MIB, Machine
from tests.kit.provision.small_image import ROOT_START

SFDISK, DEBUGFS = "/usr/sbin/sfdisk", "/usr/sbin/debugfs"


def read(node: Machine, path: str) -> str:
    words = [DEBUGFS, "-R", f"cat {path}", f"{node.disk}?offset={ROOT_START}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def refuses(node: Machine, site, order: order_text.Order, *words: str, state: str = "refused") -> str:
    """Install, and demand a refusal that leaves the disks as they are. Return its reason."""
    before = node.digest()
    ended = node.install()
    assert (ended.code, ended.is_off) == (1, True), ended.console
    assert node.digest() == before
    for word in words:
        assert word in ended.reason
    assert site.state(order) == state
    assert order.token not in ended.console
    return ended.reason


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/busybox sh", "/bin/bash --posix"])
def test_an_empty_disk_gets_the_image(site, tmp_path: Path, shell: str) -> None:
    if not Path(shell.split()[0]).exists():
        pytest.skip(f"no {shell} on this machine")
    node = Machine(tmp_path / "node", shell)
    order = site.arm_for(node)
    other = node.other.read_bytes()
    ended = node.install()
    assert (ended.code, ended.is_off, site.state(order)) == (0, True, "written"), ended.console
    assert node.other.read_bytes() == other
    # Both copies of the table are there, and the last partition ends where the disk does.
    verified = subprocess.run([SFDISK, "--verify", str(node.disk)], capture_output=True, text=True, check=True)
    assert "No errors" in verified.stdout
    end = subprocess.run([SFDISK, "--json", str(node.disk)], capture_output=True, text=True, check=True).stdout
    assert '"name": "root"' in end.replace(":", ": ").replace(":  ", ": ")
    assert node.disk.read_bytes()[:6] == b"\xeb\x63boot"
    for path, file in site.files().items():
        assert read(node, path).encode() == file.data
    assert f"image={site.image.sha256}\norder={order.id}\n" in read(node, "/etc/bedplate/image")
    stat = subprocess.run(
        [DEBUGFS, "-R", "stat /etc/ssh/ssh_host_ed25519_key", f"{node.disk}?offset={ROOT_START}"],
        capture_output=True,
        text=True,
    )
    assert "Mode:  0600" in stat.stdout
    assert "User:     0   Group:     0" in stat.stdout
    assert "PRIVATE" not in ended.console


def test_a_machine_makes_its_host_key(site, node: Machine) -> None:
    order = site.arm_for(node, host_key="machine", address="127.0.0.1/8")
    seed_files = {path: file for path, file in site.files().items() if "ssh_host" not in path}
    site.server.orders.release(order.id)
    order = site.server.orders.arm(
        site.values(host_key="machine", address="127.0.0.1/8"), seed.pack(seed_files), 3600
    ).order
    node.give(order_text.render(order), site.ca)
    ended = node.install()
    assert (ended.code, site.state(order)) == (0, "written"), ended.console
    private, public = read(node, "/etc/ssh/ssh_host_ed25519_key"), read(node, "/etc/ssh/ssh_host_ed25519_key.pub")
    reported = site.server.orders.state(order.id)["host_key"]
    assert public == f"{reported} gpu001\n"
    (node.root / "read").write_text(private)
    (node.root / "read").chmod(0o600)
    shown = subprocess.run(["ssh-keygen", "-y", "-f", str(node.root / "read")], capture_output=True, text=True).stdout
    assert shown.split()[:2] == str(reported).split()
    for path, mode in (("", "0600"), (".pub", "0644")):
        words = [DEBUGFS, "-R", f"stat /etc/ssh/ssh_host_ed25519_key{path}", f"{node.disk}?offset={ROOT_START}"]
        stat = subprocess.run(words, capture_output=True, text=True).stdout
        assert f"Mode:  {mode}" in stat
        assert "User:     0   Group:     0" in stat
    assert "PRIVATE" not in ended.console


def test_a_host_key_in_the_seed_beside_the_own(site, node: Machine) -> None:
    order = site.arm_for(node, host_key="machine", address="127.0.0.1/8")
    ended = node.install()
    assert (ended.code, site.state(order)) == (1, "refused"), ended.console
    never_boots(node)


def test_a_key_that_was_made_before_is_no_host_key(site, node: Machine, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(tmp_path / "old")], check=True)
    real = (node.bin / "ssh-keygen").resolve()
    script = f"""#!/bin/bash
[ "$1" != -y ] || exec {real} "$@"
for last; do :; done
/usr/bin/install -m 600 {tmp_path}/old "$last"
read -r type key rest <{tmp_path}/old.pub
echo "$type $key $7" >"$last.pub"
"""
    node.stand_in("ssh-keygen", script)
    order = site.arm_for(node, host_key="machine", address="127.0.0.1/8")
    ended = node.install()
    assert (ended.code, site.state(order)) == (1, "refused"), ended.console
    assert ended.reason == "ssh-keygen does not make a host key"
    never_boots(node)


def test_a_disk_with_data_is_written_when_that_was_ordered(site, node: Machine) -> None:
    subprocess.run(
        [SFDISK, "-q", str(node.disk)], input="label: gpt\nsize=8MiB\n", text=True, check=True, capture_output=True
    )
    order = site.arm_for(node, wipe="yes")
    ended = node.install()
    assert (ended.code, site.state(order)) == (0, "written"), ended.console
    assert "holds: gpt PMBR data-at-byte-0" in ended.console
    assert DISK_SERIAL in ended.console


def test_wrong_serial(site, node: Machine) -> None:
    (node.sys / "class/dmi/id/product_serial").write_text("SN-IMPOSTOR\n")
    refuses(node, site, site.arm_for(node), "SN-IMPOSTOR")


@pytest.mark.parametrize("serial", ["", "\n", "None\n"])
def test_no_serial(site, node: Machine, serial: str) -> None:
    (node.sys / "class/dmi/id/product_serial").write_text(serial)
    refuses(node, site, site.arm_for(node), "serial")


def test_wrong_mac(site, node: Machine) -> None:
    # There is no network by which it could be reported.
    refuses(node, site, site.arm_for(node, mac="52:54:00:00:00:00"), "0 interfaces", state="armed")


def test_two_nics_with_the_mac(site, node: Machine) -> None:
    order = site.arm_for(node)
    node.add_nic("eth2", order.mac)
    refuses(node, site, order, "2 interfaces", state="armed")


def _gpt(disk: Path) -> None:
    subprocess.run(
        [SFDISK, "-q", str(disk)], input="label: gpt\nsize=8MiB\n", text=True, check=True, capture_output=True
    )


def _old_gpt(disk: Path) -> None:
    _gpt(disk)
    with disk.open("r+b") as stream:
        stream.write(bytes(MIB))


def _ext4(disk: Path) -> None:
    subprocess.run(["/usr/sbin/mke2fs", "-q", "-F", str(disk)], check=True, capture_output=True)


def _at(place: int) -> object:
    def write(disk: Path) -> None:
        with disk.open("r+b") as stream:
            stream.seek(place, os.SEEK_SET if place >= 0 else os.SEEK_END)
            stream.write(b"x")

    return write


DATA = {
    "gpt": (_gpt, "gpt"),
    "backup of a gpt": (_old_gpt, "gpt"),
    "ext": (_ext4, "ext"),
    "lvm": (lambda disk: _write(disk, 512, b"LABELONE" + bytes(16) + b"LVM2 001"), "data-at-byte-0"),
    "unknown data": (_at(4096), "data-at-byte-0"),
    "unknown data at the end": (_at(-1), "data-at-byte-49283072"),
}


def _write(disk: Path, place: int, data: bytes) -> None:
    with disk.open("r+b") as stream:
        stream.seek(place)
        stream.write(data)


@pytest.mark.parametrize("name", DATA)
def test_data_without_the_word(site, node: Machine, name: str) -> None:
    write, found = DATA[name]
    write(node.disk)
    refuses(node, site, site.arm_for(node), found, "does not allow to wipe")


def test_a_partition_that_only_the_kernel_has(site, node: Machine) -> None:
    part = node.sys / "block/vda/vda1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    (node.dev / "vda1").write_bytes(bytes(MIB))
    refuses(node, site, site.arm_for(node), "holds: vda1")


def test_two_disks_that_match(site, node: Machine) -> None:
    node.add_disk("vdc", DISK_SERIAL)
    refuses(node, site, site.arm_for(node), "2 disks")


def test_no_disk_that_matches(site, node: Machine) -> None:
    refuses(node, site, site.arm_for(node, disk="S64GNE0R-2"), "0 disks")


def test_a_serial_that_begins_alike(site, node: Machine) -> None:
    refuses(node, site, site.arm_for(node, disk=DISK_SERIAL[:-1] + "."), "0 disks")


@pytest.mark.parametrize("form", ["nvme", "scsi", "scsi right"])
def test_where_a_serial_is(site, node: Machine, form: str) -> None:
    block = node.sys / "block/vda"
    (block / "serial").unlink()
    if form == "nvme":
        (block / "device/serial").write_text(f"{DISK_SERIAL}      \n")
    else:
        text = DISK_SERIAL.rjust(20) if form.endswith("right") else DISK_SERIAL.ljust(20)
        (block / "device/vpd_pg80").write_bytes(b"\0\x80\0" + bytes([len(text)]) + text.encode())
    order = site.arm_for(node)
    assert node.install().code == 0
    assert site.state(order) == "written"


def test_a_serial_that_cannot_be_read(site, node: Machine) -> None:
    (node.sys / "block/vdb/serial").unlink()
    (node.sys / "block/vdb/device/vpd_pg80").write_bytes(b"")
    refuses(node, site, site.arm_for(node), "vdb cannot be read")


@pytest.mark.parametrize(
    ("key", "text", "word"),
    [
        ("ro", "1", "read-only"),
        ("size", "32768", "bytes"),
        ("size", "x", "size"),
        ("queue/logical_block_size", "4096", "'4096' bytes"),
    ],
)
def test_a_disk_that_does_not_fit(site, node: Machine, key: str, text: str, word: str) -> None:
    (node.sys / "block/vda" / key).write_text(f"{text}\n")
    refuses(node, site, site.arm_for(node), word)


@pytest.mark.parametrize("used", ["mount", "swap", "holder"])
def test_a_disk_in_use(site, node: Machine, used: str) -> None:
    if used == "holder":
        (node.sys / "block/vda/holders/dm-0").mkdir(parents=True)
    else:
        (node.proc / {"mount": "mounts", "swap": "swaps"}[used]).write_text(f"{node.disk}1 /x ext4 rw 0 0\n")
    refuses(node, site, site.arm_for(node))


def test_an_order_claimed_twice(site, node: Machine) -> None:
    order = site.arm_for(node)
    assert node.install().code == 0
    node.boot("99999999-2222-3333-4444-555555555555")
    node.disk.write_bytes(bytes(48 * MIB))
    refuses(node, site, order, "409", state="written")


def test_an_order_claimed_by_another_start(site, node: Machine) -> None:
    order = site.arm_for(node)
    folder = site.server.orders.authorize(order.id, order.token)
    facts = {"serial": order.serial, "mac": order.mac, "disk": order.disk, "nonce": "a" * 36}
    site.server.orders.claim(folder, facts, "")
    refuses(node, site, order, "409", "claimed before", state="claimed")


def test_the_window_is_over(site, node: Machine) -> None:
    order = site.arm_for(node)
    site.later = 3601
    refuses(node, site, order, "403", "window")


def test_an_unknown_token(site, node: Machine, capfd: pytest.CaptureFixture[str]) -> None:
    order = site.arm_for(node)
    text = (node.conf / "order").read_text()
    (node.conf / "order").write_text(text.replace(order.token, "f" * 64))
    refuses(node, site, order, "403", state="armed")
    assert '"status": 403' in (out := capfd.readouterr().out)
    assert "f" * 64 not in out


def test_a_released_order(site, node: Machine) -> None:
    order = site.arm_for(node)
    site.server.orders.release(order.id)
    refuses(node, site, order, "403", "released", state="released")


def test_a_server_by_another_ca(site, node: Machine, tmp_path: Path) -> None:
    from tests.kit.provision import certificates

    order = site.arm_for(node)
    node.give(order_text.render(order), certificates.make(tmp_path / "other") / "ca.pem")
    refuses(node, site, order, "does not answer", state="armed")


@pytest.mark.parametrize("wrong", ["cut", "line missing", "twice", "unknown", "more", "quote", "empty", "version"])
def test_an_order_that_is_damaged(site, node: Machine, wrong: str) -> None:
    order = site.arm_for(node)
    lines = order_text.render(order).splitlines(keepends=True)
    damaged = {
        "cut": lines[:-1],
        "line missing": lines[:4] + lines[5:],
        "twice": [*lines[:2], *lines[1:]],
        "more": [*lines, "wipe=yes\n"],
        "unknown": [lines[0], "x=1\n", *lines[2:]],
        "quote": [lines[0], "id=$(reboot)\n", *lines[2:]],
        "empty": [],
        "version": ["bedplate_order=2\n", *lines[1:]],
    }
    (node.conf / "order").write_text("".join(damaged[wrong]))
    refuses(node, site, order, "order", state="armed")


def never_boots(node: Machine) -> None:
    """Demand that the disk has no partition table: neither at its beginning nor at its end."""
    data = node.disk.read_bytes()
    assert data[:MIB] == bytes(MIB)
    assert data[-MIB:] == bytes(MIB)


@pytest.mark.parametrize("wipe", ["no", "yes"])
def test_hash_differs(site, node: Machine, wipe: str) -> None:
    if wipe == "yes":
        _gpt(node.disk)
    order = site.arm_for(node, image_sha256="0" * 64, wipe=wipe)
    served = site.server.served / "images"
    (served / f"{site.image.sha256}.img.zst").rename(served / f"{'0' * 64}.img.zst")
    node.give(order_text.render(order).replace(f"images/{site.image.sha256}", f"images/{'0' * 64}"), site.ca)
    ended = node.install()
    assert (ended.code, ended.is_off, site.state(order)) == (1, True, "refused"), ended.console
    assert "hash" in ended.reason
    never_boots(node)


@pytest.mark.parametrize("part", [0.0, 0.02, 0.5, 0.999])
def test_stream_cut(site, node: Machine, part: float) -> None:
    _gpt(node.disk)
    order = site.arm_for(node, wipe="yes")
    name = site.server.served / "images" / f"{site.image.sha256}.img.zst"
    data = name.read_bytes()
    name.unlink()
    name.write_bytes(data[: int(len(data) * part)])
    ended = node.install()
    assert (ended.code, ended.is_off, site.state(order)) == (1, True, "refused"), ended.console
    never_boots(node)


def test_an_image_that_is_missing(site, node: Machine) -> None:
    order = site.arm_for(node)
    (site.server.served / "images" / f"{site.image.sha256}.img.zst").unlink()
    ended = node.install()
    assert (ended.code, site.state(order)) == (1, "refused")
    assert "fetch" in ended.reason
    never_boots(node)


@pytest.mark.parametrize("key", ["raw_sha256", "seed_sha256"])
def test_what_is_on_the_disk_is_not_the_order(site, node: Machine, key: str) -> None:
    order = site.arm_for(node)
    text = order_text.render(order).replace(f"{key}={getattr(order, key)}", f"{key}={hashlib.sha256(b'').hexdigest()}")
    node.give(text, site.ca)
    ended = node.install()
    assert (ended.code, site.state(order)) == (1, "refused"), ended.console
    never_boots(node)


def test_a_disk_of_terabytes(site, node: Machine) -> None:
    """Its size is no multiple of 1 MiB, and the table that is made in memory has holes."""
    size = 3_840_755_982_336
    with node.disk.open("r+b") as stream:
        stream.truncate(size)
    (node.sys / "block/vda/size").write_text(f"{size // 512}\n")
    order = site.arm_for(node)
    assert node.install().code == 0
    assert site.state(order) == "written"
    verified = subprocess.run([SFDISK, "--json", str(node.disk)], capture_output=True, text=True, check=True)
    assert "backup" not in verified.stderr
    root = json.loads(verified.stdout)["partitiontable"]["partitions"][-1]
    assert size - 2 * MIB < (root["start"] + root["size"]) * 512 < size
    assert node.disk.stat().st_blocks * 512 < 64 * MIB
    assert sum(path.stat().st_blocks * 512 for path in (node.root / "run").iterdir()) < 16 * MIB


def test_a_clock_of_1970_is_set(site, node: Machine) -> None:
    now = f"if [ -e {node.root}/set ]; then echo 9999999999; else echo 315532800; fi"
    node.stand_in("date", f'#!/bin/sh\ncase "$*" in "+%s") {now} ;; *) echo "$*" >{node.root}/set ;; esac\n')
    order = site.arm_for(node)
    assert node.install().code == 0
    assert (node.root / "set").read_text() == f"-u -s @{order.issued}\n"
