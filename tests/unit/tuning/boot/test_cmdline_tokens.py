"""A kernel command line has our tokens exactly, and everybody else's as they were."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import (
    CmdlineError,
    Token,
    displaced,
    parse,
    placed,
    split,
    tokens,
    without_tokens,
)

HUGE = ["hugepagesz=2M", "hugepages=0:16,1:8", "hugepagesz=1G", "hugepages=4"]


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("", ["iommu=pt"], "iommu=pt"),
        ("ro quiet", [], "ro quiet"),
        ("ro\t quiet ", ["iommu=pt"], "ro\t quiet iommu=pt"),
        ("iommu=soft ro iommu=off", ["iommu=pt"], " ro iommu=pt"),
        ("ro -- iommu=off", ["iommu=pt"], "ro iommu=pt -- iommu=off"),
        ("-- s", ["iommu=pt"], "iommu=pt -- s"),
        ('a="x iommu=off y"', ["iommu=pt"], 'a="x iommu=off y" iommu=pt'),
        ("transparent-hugepage=always", ["transparent_hugepage=madvise"], "transparent_hugepage=madvise"),
        ("hugepagesz=1G ro", HUGE, f" ro {' '.join(HUGE)}"),
        ("ro", ['dyndbg="file a.c +p"'], 'ro dyndbg="file a.c +p"'),
        ("ro iommu", ["iommu=pt"], "ro iommu=pt"),
        ("xiommu=1 iommu.x=2", ["iommu=pt"], "xiommu=1 iommu.x=2 iommu=pt"),
        # The kernel adds up the options of several pci=.
        ("ro pci=nocrs", ["pci=realloc"], "ro pci=nocrs pci=realloc"),
        ("ro pci=nocrs,realloc=off,noaer s", ["pci=realloc"], "ro pci=nocrs,noaer s pci=realloc"),
        ("pci=realloc=off ro", ["pci=realloc", "pci=noats"], " ro pci=realloc,noats"),
        ("pci=use_crs pci=bfsort ro", ["pci=nocrs"], " pci=bfsort ro pci=nocrs"),
        ("pci=pcie_bus_safe", ["pci=pcie_bus_perf", "iommu=pt", "pci=noats"], "pci=pcie_bus_perf iommu=pt pci=noats"),
        ("pci=nocrs pcie_aspm=off", ["pci=realloc,noats"], "pci=nocrs pcie_aspm=off pci=realloc,noats"),
    ],
)
def test_our_tokens_come_last_and_alone_of_their_keys(before: str, wanted: list[str], after: str) -> None:
    assert placed(before, parse(wanted)) == after
    assert placed(after, parse(wanted)) == after


def test_what_gives_way_is_told_and_comes_back() -> None:
    before = "ro iommu=soft quiet"
    assert displaced(before, parse(["iommu=pt"])) == ["iommu=soft"]
    assert without_tokens("ro quiet iommu=pt added", parse(["iommu=pt"]), ["iommu=soft"]) == "ro quiet added iommu=soft"


def test_options_of_pci_give_way_and_come_back_one_by_one() -> None:
    before, ours = "ro pci=nocrs,realloc=off", parse(["pci=realloc"])
    assert displaced(before, ours) == ["pci=realloc=off"]
    after = placed(before, ours)
    assert without_tokens(f"{after} added", ours, ["pci=realloc=off"]) == "ro pci=nocrs added pci=realloc=off"
    # Somebody chose anew in the meantime.
    assert without_tokens(f"{after} pci=realloc=on", ours, ["pci=realloc=off"]) == "ro pci=nocrs pci=realloc=on"


def test_only_as_many_are_taken_out_as_are_ours() -> None:
    assert without_tokens("iommu=pt ro iommu=pt", parse(["iommu=pt"]), []) == "iommu=pt ro"


def test_grub_has_quotes_and_backslashes_of_its_own() -> None:
    assert [word.bare for word in split(r"""a='b c' \$vt d\ e "f \" g" """, grub=True)] == [
        "a=b c",
        "$vt",
        "d e",
        'f " g',
    ]
    assert tokens("a='b c'") == [Token("a", "'b"), Token("c'")]
    assert Token("memmap", "4G$8G").for_grub == r"memmap=4G\$8G"
    assert Token("a", "b $c").for_grub == r'a="b \$c"'
    for value in ("4G$8G", "b $c", "a;b&c|d{e}f<g>(h)*[i]#j"):
        assert tokens(Token("a", value).for_grub, grub=True) == [Token("a", value)]


def test_whatever_is_wrong_with_the_tokens_is_said_at_once() -> None:
    wrong = [
        "a\nb",
        "a b",
        "",
        "a\0",
        "ü=1",
        "x=ü",
        "=x",
        "-- ",
        "--",
        'a="b',
        'a=b"c"d',
        r"a=b\c",
        "a='b'",
        "root=/dev/sda",
        "$x=1",
    ]
    with pytest.raises(CmdlineError) as caught:
        parse([*wrong, "hugepages=3", "fine=1"])
    assert len(caught.value.problems) == len(wrong) + 1
    for text, problem in zip(wrong, caught.value.problems, strict=False):
        assert repr(text) in problem or "quote" in problem
    assert "hugepages=3: the page size is missing" in caught.value.problems[-1]


def test_a_token_in_quotes_as_a_whole_is_the_same_token() -> None:
    assert parse(['"a=b c"']) == parse(['a="b c"'])
    assert str(parse(['"a=b c"'])[0]) == 'a="b c"'


@settings(deadline=None)
@given(st.text(alphabet="ab=-_ \t\n\"'\\$é", max_size=30), st.booleans())
def test_any_text_is_read_without_a_loss_or_refused(text: str, grub: bool) -> None:
    try:
        words = split(text, grub)
    except CmdlineError:
        return
    assert "".join(word.gap + word.raw for word in words) == text.rstrip(" \t\n") or grub
    assert [word.raw for word in words] == [
        word.raw for word in split(" ".join(word.raw for word in words), grub)
    ] or grub
    wanted = parse(["a=1", "zz=2"])
    once = placed(text, wanted, grub)
    assert placed(once, wanted, grub) == once
    assert tokens(once, grub)[-2:] == wanted


def test_a_quote_that_does_not_end_is_refused() -> None:
    with pytest.raises(CmdlineError, match="does not end"):
        placed('a="b', parse(["iommu=pt"]))
