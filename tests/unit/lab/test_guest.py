"""Guests as far as they need no virtual machine: the sectors before the partition, QEMU's words, whose process is ended."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from lab.guest import disk, image, machine, qemu, recipe
from lab.shell import LabError
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

BOOT = bytes(range(92)) + struct.pack("<Q", 1) + bytes(412)


def core(sectors: int, start: int = 2, length: int | None = None) -> bytes:
    rest = sectors - 1 if length is None else length
    return bytes(500) + struct.pack("<QHH", start, rest, 0x820) + b"\xaa" * (512 * (sectors - 1))


def test_the_sectors_before_the_partition_are_grubs_and_its_table_has_one_that_boots() -> None:
    made = disk.head(BOOT, core(60), 6 << 20)
    assert len(made) == disk.FIRST * 512
    assert made[:440] == BOOT[:440]
    assert made[446:462] == b"\x80\xfe\xff\xff\x83\xfe\xff\xff" + struct.pack("<II", 2048, (6 << 20) - 2048)
    assert made[510:512] == b"\x55\xaa"
    assert made[512 : 512 + 60 * 512] == core(60)
    assert not any(made[61 * 512 :])


@pytest.mark.parametrize(
    ("case", "boot", "image_of_core", "values"),
    [
        ("a short boot.img", BOOT[:100], core(3), [" 100 ", " 512;"]),
        ("a long core.img", BOOT, core(2048), [" 1048576", " 1048064"]),
        ("another sector", BOOT[:92] + struct.pack("<Q", 7) + BOOT[100:], core(3), [" 7;"]),
        ("another start", BOOT, core(3, start=5), [" 2 ", " 5 "]),
        ("another length", BOOT, core(3, length=1), [" 1 ", " 2,"]),
    ],
)
def test_stages_that_would_not_find_each_other_are_refused(
    case: str, boot: bytes, image_of_core: bytes, values: list[str]
) -> None:
    with pytest.raises(LabError, match="GRUB") as caught:
        disk.head(boot, image_of_core, 1 << 20)
    sentences.check(SENTENCES, f"stages of GRUB: {case}", [caught.value])
    assert [value for value in values if value not in str(caught.value)] == []


def test_the_recipe_names_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe.recipe_hash()
    assert recipe.recipe_hash() == before
    monkeypatch.setattr(recipe, "PACKAGES", (*recipe.PACKAGES, "tmux"))
    assert recipe.recipe_hash() != before


def test_the_disks_that_were_not_used_for_longest_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(image, "image_cache", lambda: tmp_path)
    for age, name in enumerate(("guest-b.img", "guest-a.img", f"guest-{recipe.recipe_hash()}.img")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert image.ensure().name == f"guest-{recipe.recipe_hash()}.img"
    assert {path.name for path in tmp_path.iterdir()} == {f"guest-{recipe.recipe_hash()}.img", "guest-b.img"}


def test_a_guest_has_two_nodes_an_iommu_and_one_port_of_this_machine_alone(tmp_path: Path) -> None:
    words = qemu.command("one", tmp_path, 2222, {"system.hostname": tmp_path / "name"})
    assert words[words.index("-accel") + 1] == "tcg,thread=multi"
    assert "node,nodeid=1,memdev=memory1" in words
    assert "cpu,node-id=1,socket-id=1" in words
    assert any(word.startswith("intel-iommu") for word in words)
    assert "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22" in words
    assert f"name=opt/io.systemd.credentials/system.hostname,file={tmp_path}/name" in words


def test_further_nics_are_behind_a_host_bridge_at_their_numa_node(tmp_path: Path) -> None:
    nics = (qemu.GuestNic("virtio-net-pci", 1, 2), qemu.GuestNic("e1000e", 1))
    words = qemu.command("one", tmp_path, 2222, {}, nics, "max,-hypervisor")
    assert words[words.index("-cpu") + 1] == "max,-hypervisor"
    assert [word for word in words if word.startswith("pxb-pcie")] == [
        "pxb-pcie,bus=pcie.0,id=bridge1,bus_nr=128,numa_node=1"
    ]
    assert "virtio-net-pci,bus=slot0,romfile=,netdev=nic0,mq=on,vectors=6" in words
    assert "e1000e,bus=slot1,romfile=" in words


def test_only_the_process_of_a_guest_is_ended(tmp_path: Path) -> None:
    """A number that was given to somebody else meanwhile is not the guest."""
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / qemu.PIDFILE).write_text(f"{other.pid}\n")
        assert not qemu.end(tmp_path)
        assert other.poll() is None
        other.kill()
    script = "import time; time.sleep(60)"
    with subprocess.Popen(["python3", "-c", script, str(tmp_path / qemu.PIDFILE)]) as guest:
        (tmp_path / qemu.PIDFILE).write_text(f"{guest.pid}\n")
        while qemu.process(tmp_path) is None:
            pass
        # A child of ours stays in the table until it is waited for; then its words are gone.
        assert qemu.end(tmp_path)
        assert guest.wait() != 0


def test_a_panic_is_seen_and_an_error_has_the_last_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "GUESTS", tmp_path)
    guest = machine.Guest("one")
    guest.folder.mkdir()
    assert not qemu.panicked(guest.folder)
    console = "".join(f"line {number}\r\n" for number in range(99)) + "[ 1.2] Kernel panic - not syncing: Fatal\r\n"
    (guest.folder / qemu.CONSOLE).write_text(console)
    assert qemu.panicked(guest.folder)
    assert guest.console(2) == "  line 98\n  [ 1.2] Kernel panic - not syncing: Fatal"
    assert [one.name for one in machine.known()] == ["one"]
    assert guest.remove()
    assert machine.known() == []
    assert not guest.remove()
