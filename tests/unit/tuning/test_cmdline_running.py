"""A reboot is wanted only when the running command line differs; a machine without a boot loader is told so."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cmdline import CmdlineError
from tests.unit.tuning.machines import ROOT, SETTINGS, Machine, debian, el9

HUGE = ["hugepagesz=2M", "hugepages=4", "hugepagesz=1G", "hugepages=0:2"]


@pytest.mark.parametrize(
    ("running", "wanted", "reason"),
    [
        ("quiet", ["iommu=pt"], "the running kernel lacks iommu=pt"),
        ("iommu=pt quiet", ["iommu=pt"], ""),
        ("x=1 init_on_alloc=0 iommu=pt", ["iommu=pt", "init_on_alloc=0"], ""),
        ("iommu=soft", ["iommu=pt"], "the running kernel has iommu=soft in place of iommu=pt"),
        ("iommu=pt iommu=soft", ["iommu=pt"], "the running kernel has iommu=pt iommu=soft in place of iommu=pt"),
        ("quiet -- iommu=pt", ["iommu=pt"], "the running kernel lacks iommu=pt"),
        ('"dyndbg=file a.c +p"', ['dyndbg="file a.c +p"'], ""),
        ("transparent-hugepage=never", ["transparent_hugepage=never"], ""),
        (" ".join(HUGE), HUGE, ""),
        (
            "hugepages=4 hugepagesz=2M hugepagesz=1G hugepages=0:2",
            HUGE,
            f"the running kernel has hugepages=4 hugepagesz=2M hugepagesz=1G hugepages=0:2 in place of {' '.join(HUGE)}",
        ),
        ('x="cut off', ["iommu=pt"], "the running kernel lacks iommu=pt"),
    ],
)
def test_the_running_command_line_decides(tmp_path: Path, running: str, wanted: list[str], reason: str) -> None:
    machine = el9(tmp_path)
    machine.boots(running)
    result = machine.bring(*wanted)
    assert (result["reboot_wanted"], result["reason"]) == (bool(reason), reason)
    assert machine.bring(*wanted)["reason"] == reason


@pytest.mark.parametrize("make", [debian, el9])
def test_a_removed_token_wants_a_reboot_until_it_no_longer_runs(tmp_path: Path, make) -> None:
    machine = make(tmp_path)
    machine.bring("iommu=pt", "init_on_alloc=0")
    machine.boots(f"{ROOT} iommu=pt init_on_alloc=0")
    assert not machine.bring("iommu=pt", "init_on_alloc=0")["reboot_wanted"]
    for _run in range(2):
        result = machine.bring("iommu=pt")
        assert result["reason"] == "the running kernel still has init_on_alloc=0, which is no longer wanted"
    assert "still has init_on_alloc=0 iommu=pt" in machine.bring(check=True)["reason"].replace(
        "iommu=pt init_on_alloc=0", "init_on_alloc=0 iommu=pt"
    )
    machine.boots(ROOT)
    assert not machine.bring()["reboot_wanted"]


@pytest.mark.parametrize("make", [debian, el9])
def test_a_token_that_the_user_wants_too_stays_and_wants_no_reboot(tmp_path: Path, make) -> None:
    machine = make(tmp_path)
    machine.put("etc/default/grub", SETTINGS.replace("quiet", "iommu=pt"))
    if make is el9:
        for path in (tmp_path / "boot/loader/entries").iterdir():
            path.write_text(path.read_text().replace("$tuned_params", "iommu=pt"))
    machine.bring("iommu=pt")
    machine.boots(f"{ROOT} iommu=pt")
    assert not machine.bring()["reboot_wanted"]


def test_a_machine_without_a_boot_loader_is_told_unless_nothing_is_wanted(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"proc/cmdline": "quiet\n"})
    result = machine.bring()
    assert (result["changed"], result["loader"], result["running"]) == (False, "", ["quiet"])
    with pytest.raises(CmdlineError, match=r"no boot loader was found .* A container has its host's kernel"):
        machine.bring("iommu=pt")
    assert [path.name for path in tmp_path.iterdir()] == ["proc"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"boot/efi/EFI/Linux/a.efi": ""}, "a unified kernel image, which has its command line inside"),
        ({"boot/grub2/grub.cfg": ""}, "GRUB 2 without update-grub and without boot loader entries"),
        ({"boot/grub2/grub.cfg": "linux /x", "boot/loader/entries/a.conf": ""}, "does not read boot loader entries"),
        ({"etc/zipl.conf": ""}, "zipl"),
        (
            {"boot/grub/grub.cfg": "", "usr/sbin/grub-mkconfig": "", "efi/loader/entries/a.conf": ""},
            "both GRUB (/boot/grub) and boot loader entries (/efi/loader/entries)",
        ),
    ],
)
def test_a_boot_loader_that_is_not_supported_is_named_with_those_that_are(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    with pytest.raises(CmdlineError) as caught:
        Machine(tmp_path, files).bring("iommu=pt")
    assert said in str(caught.value)
    assert "supported are GRUB with update-grub" in str(caught.value)
