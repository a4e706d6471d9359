"""Boot loader entries: EL's with GRUB, with and without $kernelopts, and systemd-boot's."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import grub_scripts
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.boot_entries import with_block
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError, parse
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.grub_scripts import evaluated
from tests.kit import sentences
from tests.unit.tuning.machines import ENTRY, ROOT, Machine, el8, el9

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

A, RESCUE = "boot/loader/entries/a-5.14.conf", "boot/loader/entries/a-0-rescue.conf"


def options(machine: Machine, name: str = A) -> str:
    return next(line for line in machine.get(name).splitlines() if line.startswith("options")).removeprefix("options ")


def test_el9_has_them_in_all_entries_for_later_kernels_and_in_grubs_settings(tmp_path: Path) -> None:
    machine = el9(tmp_path, f"{ROOT}  iommu=soft\tcrashkernel=1G $tuned_params")
    before = machine.tree()
    result = machine.apply("iommu=pt", "init_on_alloc=0")
    assert result["gave_way"] == ["iommu=soft"]
    assert options(machine) == options(machine, RESCUE)
    assert options(machine) == f"{ROOT}\tcrashkernel=1G $tuned_params iommu=pt init_on_alloc=0"
    assert machine.get("etc/kernel/cmdline") == f"{ROOT} crashkernel=1G iommu=pt init_on_alloc=0\n"
    assert evaluated([tmp_path / "etc/default/grub"]) == "crashkernel=1G iommu=pt init_on_alloc=0"
    assert not machine.apply("iommu=pt", "init_on_alloc=0")["changed"]
    machine.apply("init_on_alloc=1")
    assert options(machine) == f"{ROOT}  iommu=soft\tcrashkernel=1G $tuned_params init_on_alloc=1"
    machine.apply()
    assert machine.tree() == before


def test_el8_has_them_in_grubs_environment(tmp_path: Path) -> None:
    machine = el8(tmp_path)
    before = machine.tree()
    machine.apply("iommu=pt", "crashkernel=2G")
    assert options(machine, "boot/loader/entries/a-4.18.conf") == "$kernelopts $tuned_params"
    environment = machine.get("boot/efi/EFI/redhat/grubenv")
    assert f"\nkernelopts={ROOT} iommu=pt crashkernel=2G\nboot_success=0\n#" in environment
    assert len(environment) == 1024
    assert (tmp_path / "boot/grub2/grubenv").is_symlink()
    machine.put("boot/efi/EFI/redhat/grubenv", environment.replace("boot_success=0", "boot_success=1"))
    assert not machine.apply("iommu=pt", "crashkernel=2G")["changed"]
    machine.apply()
    machine.put(
        "boot/efi/EFI/redhat/grubenv", machine.get("boot/efi/EFI/redhat/grubenv").replace("success=1", "success=0")
    )
    assert machine.tree() == before


def test_an_environment_without_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    machine = el8(tmp_path, "x" * 900)
    before = machine.tree()
    with pytest.raises(CmdlineError, match=r"GRUB.* 1024 .* [0-9]+ ") as caught:
        machine.apply(f"isolcpus={'1,' * 40}3")
    sentences.check(SENTENCES, "no room in GRUB's environment", machine.said_of(caught.value))
    assert machine.tree() == before


def test_a_token_in_the_entry_itself_gives_way_to_the_environment(tmp_path: Path) -> None:
    machine = el8(tmp_path)
    machine.put("boot/loader/entries/a-4.18.conf", ENTRY.format("$kernelopts iommu=soft"))
    assert machine.apply("iommu=pt")["gave_way"] == ["iommu=soft"]
    assert options(machine, "boot/loader/entries/a-4.18.conf") == "$kernelopts"
    machine.apply()
    assert options(machine, "boot/loader/entries/a-4.18.conf") == "$kernelopts iommu=soft"


def test_a_kernel_that_came_later_with_ours_copied_is_left_alone_and_loses_them_with_the_others(tmp_path: Path) -> None:
    machine = el9(tmp_path)
    wanted = ["iommu=pt", "hugepagesz=1G", "hugepages=8"]
    machine.apply(*wanted)
    new, bare = "boot/loader/entries/a-5.15.conf", "boot/loader/entries/a-5.16.conf"
    machine.put(new, ENTRY.format(f"{ROOT} {' '.join(wanted)} crashkernel=1G"))
    assert not machine.apply(*wanted)["changed"]
    machine.put(bare, ENTRY.format(ROOT))
    assert machine.apply(*wanted)["changed"]
    assert options(machine, bare) == f"{ROOT} {' '.join(wanted)}"
    machine.apply()
    assert options(machine, new) == f"{ROOT} crashkernel=1G"


def test_what_others_changed_since_stays_and_what_gave_way_comes_back(tmp_path: Path) -> None:
    machine = el9(tmp_path, f"{ROOT} iommu=soft quiet")
    machine.apply("iommu=pt")
    machine.put(A, ENTRY.format(f"{ROOT} iommu=pt added=1"))
    assert not machine.apply("iommu=pt")["changed"]
    machine.put(A, ENTRY.format(f"{ROOT} iommu=pt added=1 iommu=off"))
    assert machine.apply("iommu=pt")["changed"]
    assert options(machine) == f"{ROOT} added=1 iommu=pt"
    machine.apply()
    assert options(machine) == f"{ROOT} added=1 iommu=off"


def test_a_run_that_was_cut_short_leaves_no_token_behind(tmp_path: Path) -> None:
    machine = el9(tmp_path)
    clean = machine.tree()
    machine.apply("iommu=pt")
    first = machine.tree()
    machine.apply("init_on_alloc=0")
    record = json.loads(machine.get("var/lib/bedplate/cmdline.json"))
    # The record is ahead and names both; of the files only one was written.
    machine.put("var/lib/bedplate/cmdline.json", json.dumps({**record, "own": ["init_on_alloc=0", "iommu=pt"]}))
    machine.put(A, first[A].decode())
    machine.apply()
    assert options(machine) == f"{ROOT} crashkernel=1G $tuned_params"
    assert machine.tree() == clean


def test_systemd_boot_has_literal_entries(tmp_path: Path) -> None:
    entry = "title Debian\nlinux /x/linux\noptions root=UUID=1\noptions 'iommu=soft' iommu=soft quiet"
    machine = Machine(
        tmp_path, {"efi/loader/entries/x.conf": entry, "etc/kernel/cmdline": "# for kernel-install\nroot=UUID=1"}
    )
    before = machine.tree()
    machine.apply("iommu=pt")
    assert machine.get("efi/loader/entries/x.conf") == entry.replace(" iommu=soft quiet", " quiet iommu=pt")
    assert machine.get("etc/kernel/cmdline") == "# for kernel-install\nroot=UUID=1 iommu=pt"
    machine.apply()
    assert machine.tree() == before


@pytest.mark.parametrize("text", ["title x\nlinux /y\n", "title x\nlinux /y", "", "title x\noptions\nlinux /y\n"])
def test_an_entry_without_options_gets_a_line_and_loses_it(tmp_path: Path, text: str) -> None:
    machine = Machine(tmp_path, {"boot/loader/entries/x.conf": text})
    machine.apply("iommu=pt")
    assert options(machine, "boot/loader/entries/x.conf") == "iommu=pt"
    assert not machine.apply("iommu=pt")["changed"]
    machine.apply()
    assert machine.get("boot/loader/entries/x.conf") == text


def test_every_entry_that_stands_in_the_way_is_named_at_once(tmp_path: Path) -> None:
    machine = el9(tmp_path, 'ro dyndbg="file')
    before = machine.tree()
    with pytest.raises(CmdlineError) as caught:
        machine.apply("iommu=pt")
    assert [RESCUE in caught.value.problems[0], A in caught.value.problems[1]] == [True, True]
    with pytest.raises(CmdlineError, match=r"^memmap=4G\$8G: ") as refused:
        machine.apply("memmap=4G$8G")
    sentences.check(SENTENCES, "a token that boot loaders read differently", refused.value.problems)
    assert machine.tree() == before


def test_the_file_for_later_kernels_is_never_made_older_than_grubs_settings(tmp_path: Path) -> None:
    machine = el9(tmp_path)
    machine.apply("iommu=pt")
    ages = [(tmp_path / name).stat().st_mtime_ns for name in ("etc/default/grub", "etc/kernel/cmdline")]
    assert ages[1] >= ages[0]


def test_a_file_that_cannot_be_written_puts_back_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = el9(tmp_path)
    before = machine.tree()
    replace = Path.replace

    def full(path: Path, target: Path) -> Path:
        if Path(target).name == "cmdline":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CmdlineError, match=rf"etc/kernel/cmdline: .*{os.strerror(errno.ENOSPC)}") as caught:
        machine.apply("iommu=pt")
    sentences.check(SENTENCES, "a file that cannot be written", machine.said_of(caught.value))
    assert machine.tree() == before


def test_settings_that_cannot_be_read_are_named_by_their_own_path(tmp_path: Path) -> None:
    machine = el9(tmp_path)
    machine.put("etc/default/grub", 'GRUB_CMDLINE_LINUX="\n')
    before = machine.tree()
    with pytest.raises(CmdlineError, match=rf"GRUB .*grub-mkconfig.* {tmp_path}/etc/default/grub"):
        machine.apply("iommu=pt")
    assert machine.tree() == before


def test_no_line_of_the_block_is_one_that_grubby_rewrites() -> None:
    assert not re.search("^GRUB_CMDLINE", grub_scripts.shell(parse(["iommu=pt"])), re.MULTILINE)


@pytest.mark.parametrize("text", ["", "a=1", "a=1\n", "a=1\n\n"])
def test_the_block_in_grubs_settings_goes_to_the_byte(text: str) -> None:
    placed = with_block(text, "x=1\n")
    assert with_block(placed, "x=1\n") == placed
    assert with_block(placed, "") == text
    assert with_block(placed + "b=2\n", "").splitlines() == [*text.splitlines(), "b=2"]


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    machine = el9(tmp_path)
    machine.put("var/lib/bedplate/cmdline.json", "{")
    with pytest.raises(CmdlineError, match=r"cmdline\.json,.*mv .*/cmdline\.json .*/cmdline\.json\.broken") as caught:
        machine.apply("iommu=pt")
    sentences.check(SENTENCES, "a record that cannot be read", machine.said_of(caught.value))
