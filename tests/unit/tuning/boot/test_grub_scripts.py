"""GRUB with update-grub: a drop-in, the user's files as they are, and grub.cfg read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import grub_scripts
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError, tokens
from tests.kit import sentences
from tests.unit.tuning.machines import ROOT, SETTINGS, debian

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

WANTED = ["iommu=pt", "hugepagesz=2M", "hugepages=0:16,1:8", "transparent_hugepage=madvise"]
DROP_IN = "etc/default/grub.d/zz-bedplate.cfg"


def lines(machine) -> list[list[str]]:
    found = grub_scripts.kernel_lines(machine.get("boot/grub/grub.cfg"))
    return [[str(token) for token in tokens(line, grub=True)] for line in found]


def test_tokens_come_change_and_go_without_a_trace(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    before = machine.tree()
    result = machine.apply(*WANTED)
    assert result["changed"]
    assert lines(machine) == [[*ROOT.split(), *WANTED, "quiet"]] * 2
    assert machine.get("etc/default/grub") == SETTINGS
    assert machine.calls == [["chroot", str(tmp_path), "/usr/sbin/update-grub"]]
    again = machine.apply(*WANTED)
    assert (again["changed"], again["diff"], len(machine.calls)) == (False, [], 1)
    assert machine.apply("iommu=pt", "init_on_alloc=0")["changed"]
    assert lines(machine)[0] == [*ROOT.split(), "iommu=pt", "init_on_alloc=0", "quiet"]
    assert machine.apply()["changed"]
    assert machine.tree() == before
    assert not machine.apply()["changed"]


def test_options_of_pci_have_owners_of_their_own(tmp_path: Path) -> None:
    machine = debian(tmp_path, 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX="pci=nocrs,realloc=off"\n')
    before = machine.tree()
    result = machine.apply("pci=realloc", "iommu=pt")
    assert result["gave_way"] == ["pci=realloc=off"]
    assert lines(machine)[0] == [*ROOT.split(), "pci=nocrs", "pci=realloc", "iommu=pt", "quiet"]
    assert not machine.apply("pci=realloc", "iommu=pt")["changed"]
    machine.boots(f"{ROOT} pci=nocrs,realloc iommu=pt")
    assert not machine.apply("pci=realloc", "iommu=pt")["reboot_wanted"]
    machine.boots(f"{ROOT} pci=realloc=off,nocrs iommu=pt")
    assert "pci=realloc=off in place of pci=realloc" in machine.apply("pci=realloc", "iommu=pt")["reason"]
    machine.boots(f"{ROOT} quiet")
    machine.apply()
    assert machine.tree() == before


def test_an_option_of_pci_in_a_word_with_quotes_is_refused_with_its_place(tmp_path: Path) -> None:
    text = 'GRUB_CMDLINE_LINUX_DEFAULT="pci=realloc=off,resource_alignment=20@00:1.0\\\\;00:2.0"\n'
    machine = debian(tmp_path, text)
    before = machine.tree()
    with pytest.raises(CmdlineError) as caught:
        machine.apply("pci=realloc")
    (problem,) = machine.said_of(caught.value)
    assert "/etc/default/grub:1:" in problem
    sentences.check(SENTENCES, "an option of pci= in a word with backslashes", [problem])
    assert machine.tree() == before


OLD = "etc/default/grub.d/60-bedplate.cfg"


@pytest.mark.parametrize("tokens", [WANTED, []])
def test_the_drop_in_of_an_older_release_goes_in_the_same_run(tmp_path: Path, tokens: list[str]) -> None:
    machine = debian(tmp_path)
    before = machine.tree()
    machine.apply(*WANTED)
    machine.put(OLD, machine.get(DROP_IN))
    (tmp_path / DROP_IN).unlink()
    predicted = machine.apply(*tokens, check=True)
    result = machine.apply(*tokens)
    assert predicted["diff"] == result["diff"]
    assert f"{tmp_path / OLD} (removed)" in [one.get("after_header") for one in result["diff"]]
    assert not (tmp_path / OLD).exists()
    # What it set was bedplate's own, and gave way to nobody.
    assert result["gave_way"] == []
    if tokens:
        assert lines(machine) == [[*ROOT.split(), *WANTED, "quiet"]] * 2
        assert not machine.apply(*WANTED)["changed"]
    else:
        assert machine.tree() == before


def test_the_old_drop_in_is_restored_if_update_grub_fails(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.apply(*WANTED)
    machine.put(OLD, machine.get(DROP_IN))
    (tmp_path / DROP_IN).unlink()
    before, machine.fails = machine.tree(), "no space left"
    with pytest.raises(CmdlineError):
        machine.apply("iommu=pt")
    assert machine.tree() == before


def test_drop_ins_of_vendors_are_read_before_ours(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    for name in ("70-vendor", "99-cloud", "kdump-tools", "nvidia-hugepage"):
        machine.put(f"etc/default/grub.d/{name}.cfg", 'GRUB_CMDLINE_LINUX="iommu=off"\n')
    machine.apply("iommu=pt")
    assert [token for token in lines(machine)[0] if token.startswith("iommu")] == ["iommu=pt"]


def test_check_mode_says_what_would_change_and_touches_nothing(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    before = machine.tree()
    result = machine.apply(*WANTED, check=True)
    assert result["changed"]
    assert result["reboot_wanted"]
    assert (machine.tree(), machine.calls) == (before, [])
    assert result["diff"][0]["before_header"] == f"{tmp_path / DROP_IN} (absent)"
    assert "hugepages=0:16,1:8" in result["diff"][0]["after"]
    machine.apply(*WANTED)
    removal = machine.apply(check=True)
    assert removal["diff"][0]["after_header"] == f"{tmp_path / DROP_IN} (removed)"


def test_a_token_of_the_user_gives_way_and_is_named(tmp_path: Path) -> None:
    machine = debian(
        tmp_path, 'GRUB_CMDLINE_LINUX_DEFAULT="quiet transparent-hugepage=always"\nGRUB_CMDLINE_LINUX="hugepagesz=1G"\n'
    )
    result = machine.apply(*WANTED)
    assert result["gave_way"] == ["hugepagesz=1G", "transparent-hugepage=always"]
    assert lines(machine)[0] == [*ROOT.split(), *WANTED, "quiet"]
    assert machine.apply(*WANTED)["gave_way"] == []
    machine.apply()
    assert lines(machine)[0] == [*ROOT.split(), "hugepagesz=1G", "quiet", "transparent-hugepage=always"]


def test_settings_of_a_cloud_image_and_of_the_user_later_on_go_together(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.put(
        "etc/default/grub.d/50-cloudimg-settings.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0"\n'
    )
    machine.put(
        "etc/default/grub.d/kdump.cfg", 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=1G"\n'
    )
    machine.apply("iommu=pt")
    assert lines(machine)[0] == [*ROOT.split(), "iommu=pt", "console=tty1", "console=ttyS0", "crashkernel=1G"]
    machine.put("etc/default/grub", SETTINGS.replace('LINUX=""', 'LINUX="added=1"'))
    assert not machine.apply("iommu=pt")["changed"]
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
        machine.apply("iommu=pt")
    assert f"{tmp_path}/etc/default/grub.d/zz.cfg:3: {text}" in str(caught.value)
    if "soft" in text:
        sentences.check(SENTENCES, "a file that is read later and would win", machine.said_of(caught.value))
    assert (machine.tree(), machine.calls) == (before, [])


def test_when_update_grub_fails_the_old_drop_in_comes_back(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.apply("iommu=pt")
    before = machine.tree()
    machine.fails = "/usr/sbin/grub-probe: error: cannot find a device for / (is /dev mounted?)."
    with pytest.raises(CmdlineError, match=r" 1: /usr/sbin/grub-probe: error: ") as caught:
        machine.apply("init_on_alloc=0")
    sentences.check(SENTENCES, "update-grub fails", machine.said_of(caught.value))
    assert machine.tree() == before


def test_a_grub_cfg_without_the_tokens_is_an_error_and_is_made_again_as_it_was(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    before = machine.tree()
    machine.drops = "hugepages=0:16,1:8"
    with pytest.raises(CmdlineError, match=r"grub\.cfg without iommu=pt .*: root=UUID=6f0c") as caught:
        machine.apply(*WANTED)
    sentences.check(SENTENCES, "a grub.cfg without the tokens", machine.said_of(caught.value))
    assert machine.tree() == before
    assert len(machine.calls) == 2


def test_a_grub_cfg_that_is_behind_its_settings_is_made_again(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    old = machine.get("boot/grub/grub.cfg")
    machine.apply("iommu=pt")
    machine.put("boot/grub/grub.cfg", old)
    predicted = machine.apply("iommu=pt", check=True)
    assert predicted["changed"]
    (row,) = predicted["diff"]
    sentences.check(
        SENTENCES, "a grub.cfg that is behind its settings", [row["prepared"].replace(str(tmp_path), "").strip()]
    )
    assert machine.apply("iommu=pt")["changed"]
    assert "iommu=pt" in lines(machine)[0]
    assert not machine.apply("iommu=pt")["changed"]


def test_a_run_that_was_cut_short_is_made_good(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.apply("iommu=pt")
    made, boots = machine.get("boot/grub/grub.cfg"), f"{ROOT} iommu=pt quiet"
    machine.boots(boots)
    machine.apply()
    machine.put("boot/grub/grub.cfg", made)  # as if update-grub had not run any more
    assert machine.apply()["changed"]
    assert "iommu=pt" not in lines(machine)[0]


def test_settings_that_the_shell_cannot_read_are_told(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.put("etc/default/grub", 'GRUB_CMDLINE_LINUX="quiet\n')
    with pytest.raises(CmdlineError, match=r"GRUB .*grub-mkconfig.*[Uu]nterminated") as caught:
        machine.apply("iommu=pt")
    # What sh says is its own.
    sentences.check(SENTENCES, "settings that the shell cannot read", [str(caught.value).partition(": ")[0]])


def test_settings_that_grub_could_not_read_are_told_with_their_lines(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.put("etc/default/grub", "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX='a=\"b'\n")
    with pytest.raises(CmdlineError, match=r"a=\"b.*etc/default/grub:2: GRUB_CMDLINE_LINUX=") as caught:
        machine.apply("iommu=pt")
    sentences.check(SENTENCES, "settings that GRUB could not read", [str(caught.value).partition(". ")[0]])


def test_a_dollar_and_quotes_reach_the_kernel(tmp_path: Path) -> None:
    machine = debian(tmp_path)
    machine.apply("memmap=4G$8G", 'dyndbg="file a.c +p"', "x=a;b&c")
    assert lines(machine)[0] == [*ROOT.split(), "memmap=4G$8G", 'dyndbg="file a.c +p"', "x=a;b&c", "quiet"]
    assert r"memmap=4G\$8G" in machine.get("boot/grub/grub.cfg")
