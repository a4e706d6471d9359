"""A reboot is wanted only when the running command line differs; a machine without a boot loader is told so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_change import compare_tokens, refuse
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError
from tests.kit import sentences
from tests.unit.tuning.machines import ROOT, SETTINGS, Machine, debian, el9

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

HUGE = ["hugepagesz=2M", "hugepages=4", "hugepagesz=1G", "hugepages=0:2"]
OTHER_ORDER = "hugepages=4 hugepagesz=2M hugepagesz=1G hugepages=0:2"


@pytest.mark.parametrize(
    ("running", "wanted", "named"),
    [
        ("quiet", ["iommu=pt"], ["iommu=pt"]),
        ("iommu=pt quiet", ["iommu=pt"], []),
        ("x=1 init_on_alloc=0 iommu=pt", ["iommu=pt", "init_on_alloc=0"], []),
        ("iommu=soft", ["iommu=pt"], ["iommu=soft", "iommu=pt"]),
        ("iommu=pt iommu=soft", ["iommu=pt"], ["iommu=pt iommu=soft", "iommu=pt"]),
        ("quiet -- iommu=pt", ["iommu=pt"], ["iommu=pt"]),
        ('"dyndbg=file a.c +p"', ['dyndbg="file a.c +p"'], []),
        ("transparent-hugepage=never", ["transparent_hugepage=never"], []),
        (" ".join(HUGE), HUGE, []),
        (OTHER_ORDER, HUGE, [OTHER_ORDER, " ".join(HUGE)]),
        ('x="cut off', ["iommu=pt"], ["iommu=pt"]),
    ],
)
def test_the_running_command_line_decides(tmp_path: Path, running: str, wanted: list[str], named: list[str]) -> None:
    """`named` are the tokens that run, where others of their family are wanted, and those that are wanted."""
    machine = el9(tmp_path)
    machine.boots(running)
    result = machine.apply(*wanted)
    tokens = [word for word in result["reason"].split() if "=" in word]
    assert (result["reboot_wanted"], tokens) == (bool(named), " ".join(named).split())
    assert machine.apply(*wanted)["reason"] == result["reason"]
    if running in ("quiet", "iommu=soft"):
        sentences.check(SENTENCES, f"{running} runs", [result["reason"]])


@pytest.mark.parametrize("make", [debian, el9])
def test_a_removed_token_wants_a_reboot_until_it_no_longer_runs(tmp_path: Path, make) -> None:
    machine = make(tmp_path)
    machine.apply("iommu=pt", "init_on_alloc=0")
    machine.boots(f"{ROOT} iommu=pt init_on_alloc=0")
    assert not machine.apply("iommu=pt", "init_on_alloc=0")["reboot_wanted"]
    for _run in range(2):
        result = machine.apply("iommu=pt")
        assert re.findall(r"\w+=\w+", result["reason"]) == ["init_on_alloc=0"]
        sentences.check(SENTENCES, "a removed token still runs", [result["reason"]])
    assert sorted(re.findall(r"\w+=\w+", machine.apply(check=True)["reason"])) == ["init_on_alloc=0", "iommu=pt"]
    machine.boots(ROOT)
    assert not machine.apply()["reboot_wanted"]


@pytest.mark.parametrize("make", [debian, el9])
def test_a_token_that_the_user_wants_too_stays_and_wants_no_reboot(tmp_path: Path, make) -> None:
    machine = make(tmp_path)
    machine.put("etc/default/grub", SETTINGS.replace("quiet", "iommu=pt"))
    if make is el9:
        for path in (tmp_path / "boot/loader/entries").iterdir():
            path.write_text(path.read_text().replace("$tuned_params", "iommu=pt"))
    machine.apply("iommu=pt")
    machine.boots(f"{ROOT} iommu=pt")
    assert not machine.apply()["reboot_wanted"]


def test_a_machine_without_a_boot_loader_is_told_unless_nothing_is_wanted(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"proc/cmdline": "quiet\n"})
    result = machine.apply()
    assert (result["changed"], result["loader"], result["running"]) == (False, "", ["quiet"])
    with pytest.raises(CmdlineError, match=rf"boot loader .*{tmp_path}.*GRUB") as caught:
        machine.apply("iommu=pt")
    said = str(caught.value).replace(str(tmp_path), "/ROOT").partition(". This was not run")[0]
    sentences.check(SENTENCES, "no boot loader", [said])
    assert [word for word in ("boot: network", "boot: none", "node_tuning_manage: false") if word not in said] == []
    with pytest.raises(CmdlineError) as again:
        refuse(tmp_path, ["iommu=pt"], tmp_path / "var/lib/bedplate")
    assert again.value.problems == caught.value.problems
    refuse(tmp_path, [], tmp_path / "var/lib/bedplate")
    assert [path.name for path in tmp_path.iterdir()] == ["proc"]


@pytest.mark.parametrize("make", [debian, el9])
def test_a_probe_of_a_machine_that_can_be_changed_changes_nothing(tmp_path: Path, make) -> None:
    machine = make(tmp_path)
    before = machine.tree()
    refuse(tmp_path, ["iommu=pt"], tmp_path / "var/lib/bedplate")
    assert (machine.tree(), machine.calls) == (before, [])


def test_what_the_change_would_refuse_is_refused_by_the_probe(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.put("etc/default/grub.d/zz-site.cfg", 'GRUB_CMDLINE_LINUX="iommu=off"\n')
    with pytest.raises(CmdlineError) as caught:
        refuse(tmp_path, ["iommu=pt"], tmp_path / "var/lib/bedplate")
    assert "zz-site.cfg:1" in str(caught.value)


def test_a_machine_that_boots_from_the_network_is_only_compared(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"proc/cmdline": "initrd=x iommu=soft\n"})
    result = compare_tokens(tmp_path, ["iommu=pt", "audit=0"])
    assert (result["changed"], result["loader"], result["reboot_wanted"]) == (False, "network", True)
    assert [word for word in ("iommu=soft", "iommu=pt", "audit=0") if word not in result["reason"]] == []
    machine.put("proc/cmdline", "initrd=x audit=0 iommu=pt\n")
    result = compare_tokens(tmp_path, ["iommu=pt", "audit=0"])
    assert (result["reboot_wanted"], result["reason"]) == (False, "")
    assert [path.name for path in tmp_path.iterdir()] == ["proc"]


@pytest.mark.parametrize(
    ("case", "files", "values"),
    [
        ("a unified kernel image", {"boot/efi/EFI/Linux/a.efi": ""}, "EFI/Linux"),
        (
            "a unified kernel image beside entries",
            {"boot/efi/EFI/Linux/a.efi": "", "boot/efi/loader/entries/a.conf": "options x\n"},
            "beside boot loader entries",
        ),
        ("GRUB without update-grub", {"boot/grub2/grub.cfg": ""}, "update-grub"),
        ("GRUB that reads no entries", {"boot/grub2/grub.cfg": "linux /x", "boot/loader/entries/a.conf": ""}, "boot loader entries"),
        ("zipl", {"etc/zipl.conf": ""}, "zipl"),
        ("two boot loaders", {"boot/grub/grub.cfg": "", "usr/sbin/grub-mkconfig": "", "efi/loader/entries/a.conf": ""},
         "GRUB (/boot/grub) /efi/loader/entries"),
    ],
)  # fmt: skip
def test_a_boot_loader_that_is_not_supported_is_named_with_those_that_are(
    tmp_path: Path, case: str, files: dict[str, str], values: str
) -> None:
    machine = Machine(tmp_path, files)
    before = machine.tree()
    with pytest.raises(CmdlineError) as caught:
        machine.apply("iommu=pt")
    (found,) = machine.said_of(caught.value)
    found, _, supported = found.partition("; supported are ")
    assert [value for value in values.split() if value not in found] == []
    assert supported.startswith("GRUB with update-grub")
    assert machine.tree() == before
    sentences.check(SENTENCES, f"a boot loader that is not supported: {case}", [found.strip(" ;").partition(": ")[2]])
