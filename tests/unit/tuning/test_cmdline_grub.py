"""GRUB with update-grub: a drop-in, the user's files as they are, and grub.cfg read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning import boot_grub
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.cmdline import CmdlineError, tokens
from tests.unit.tuning.machines import ROOT, SETTINGS, debian

WANTED = ["iommu=pt", "hugepagesz=2M", "hugepages=0:16,1:8", "transparent_hugepage=madvise"]
DROP_IN = "etc/default/grub.d/60-bedplate.cfg"


def lines(machine) -> list[list[str]]:
    found = boot_grub.kernel_lines(machine.get("boot/grub/grub.cfg"))
    return [[str(token) for token in tokens(line, grub=True)] for line in found]


def test_tokens_come_change_and_go_without_a_trace(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    before = machine.tree()
    result = machine.bring(*WANTED)
    assert result["changed"]
    assert lines(machine) == [[*ROOT.split(), *WANTED, "quiet"]] * 2
    assert machine.get("etc/default/grub") == SETTINGS
    assert machine.calls == [["chroot", str(tmp_path), "/usr/sbin/update-grub"]]
    again = machine.bring(*WANTED)
    assert (again["changed"], again["diff"], len(machine.calls)) == (False, [], 1)
    assert machine.bring("iommu=pt", "init_on_alloc=0")["changed"]
    assert lines(machine)[0] == [*ROOT.split(), "iommu=pt", "init_on_alloc=0", "quiet"]
    assert machine.bring()["changed"]
    assert machine.tree() == before
    assert not machine.bring()["changed"]


def test_check_mode_says_what_would_change_and_touches_nothing(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    before = machine.tree()
    result = machine.bring(*WANTED, check=True)
    assert result["changed"]
    assert result["reboot_wanted"]
    assert (machine.tree(), machine.calls) == (before, [])
    assert result["diff"][0]["before_header"] == f"{tmp_path / DROP_IN} (absent)"
    assert "hugepages=0:16,1:8" in result["diff"][0]["after"]
    machine.bring(*WANTED)
    removal = machine.bring(check=True)
    assert removal["diff"][0]["after_header"] == f"{tmp_path / DROP_IN} (removed)"


def test_a_token_of_the_user_gives_way_and_is_named(tmp_path: Path) -> None:
    machine = debian(
        tmp_path, 'GRUB_CMDLINE_LINUX_DEFAULT="quiet transparent-hugepage=always"\nGRUB_CMDLINE_LINUX="hugepagesz=1G"\n'
    )
    result = machine.bring(*WANTED)
    assert result["gave_way"] == ["hugepagesz=1G", "transparent-hugepage=always"]
    assert lines(machine)[0] == [*ROOT.split(), *WANTED, "quiet"]
    assert machine.bring(*WANTED)["gave_way"] == []
    machine.bring()
    assert lines(machine)[0] == [*ROOT.split(), "hugepagesz=1G", "quiet", "transparent-hugepage=always"]


def test_settings_of_a_cloud_image_and_of_the_user_later_on_go_together(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.put(
        "etc/default/grub.d/50-cloudimg-settings.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0"\n'
    )
    machine.put(
        "etc/default/grub.d/kdump.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=1G"\n'
    )
    machine.bring("iommu=pt")
    assert lines(machine)[0] == [*ROOT.split(), "iommu=pt", "console=tty1", "console=ttyS0", "crashkernel=1G"]
    machine.put("etc/default/grub", SETTINGS.replace('LINUX=""', 'LINUX="added=1"'))
    assert not machine.bring("iommu=pt")["changed"]
    machine.run([])
    assert lines(machine)[0] == [
        *ROOT.split(),
        "added=1",
        "iommu=pt",
        "console=tty1",
        "console=ttyS0",
        "crashkernel=1G",
    ]


@pytest.mark.parametrize(
    "text", ['GRUB_CMDLINE_LINUX="x"', 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=soft"']
)
def test_what_is_read_later_and_would_win_is_named_with_its_line_before_anything_is_touched(
    tmp_path: Path, text: str
) -> None:
    machine = debian(tmp_path)
    machine.put("etc/default/grub.d/zz.cfg", f"# iommu=pt\n\n{text}\n")
    before = machine.tree()
    with pytest.raises(CmdlineError) as caught:
        machine.bring("iommu=pt")
    assert f"{tmp_path}/etc/default/grub.d/zz.cfg:3: {text}" in str(caught.value)
    assert (machine.tree(), machine.calls) == (before, [])


def test_when_update_grub_fails_the_old_drop_in_comes_back(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.bring("iommu=pt")
    before = machine.tree()
    machine.fails = "/usr/sbin/grub-probe: error: cannot find a device for / (is /dev mounted?)."
    with pytest.raises(CmdlineError, match="ended with 1: /usr/sbin/grub-probe: error: cannot find a device"):
        machine.bring("init_on_alloc=0")
    assert machine.tree() == before


def test_a_grub_cfg_without_the_tokens_is_an_error_and_is_made_again_as_it_was(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    before = machine.tree()
    machine.drops = "hugepages=0:16,1:8"
    with pytest.raises(CmdlineError, match=r"does not have iommu=pt .* in this line: root=UUID=6f0c"):
        machine.bring(*WANTED)
    assert machine.tree() == before
    assert len(machine.calls) == 2


def test_a_grub_cfg_that_is_behind_its_settings_is_made_again(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    old = machine.get("boot/grub/grub.cfg")
    machine.bring("iommu=pt")
    machine.put("boot/grub/grub.cfg", old)
    predicted = machine.bring("iommu=pt", check=True)
    assert predicted["changed"]
    assert "is not what its settings say" in predicted["diff"][0]["prepared"]
    assert machine.bring("iommu=pt")["changed"]
    assert "iommu=pt" in lines(machine)[0]
    assert not machine.bring("iommu=pt")["changed"]


def test_a_run_that_was_cut_short_is_made_good(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.bring("iommu=pt")
    made, boots = machine.get("boot/grub/grub.cfg"), f"{ROOT} iommu=pt quiet"
    machine.boots(boots)
    machine.bring()
    machine.put("boot/grub/grub.cfg", made)  # as if update-grub had not run any more
    assert machine.bring()["changed"]
    assert "iommu=pt" not in lines(machine)[0]


def test_settings_that_the_shell_cannot_read_are_told(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.put("etc/default/grub", 'GRUB_CMDLINE_LINUX="quiet\n')
    with pytest.raises(CmdlineError, match=r"cannot be read by sh.*[Uu]nterminated"):
        machine.bring("iommu=pt")


def test_settings_that_grub_could_not_read_are_told_with_their_lines(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.put("etc/default/grub", "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX='a=\"b'\n")
    with pytest.raises(CmdlineError, match=r"the quote .* does not end: .*etc/default/grub:2: GRUB_CMDLINE_LINUX="):
        machine.bring("iommu=pt")


def test_a_dollar_and_quotes_reach_the_kernel(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.bring("memmap=4G$8G", 'dyndbg="file a.c +p"', "x=a;b&c")
    assert lines(machine)[0] == [*ROOT.split(), "memmap=4G$8G", 'dyndbg="file a.c +p"', "x=a;b&c", "quiet"]
    assert r"memmap=4G\$8G" in machine.get("boot/grub/grub.cfg")
