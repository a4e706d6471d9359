# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostlists: tables, round trips, and ClusterShell as a second opinion."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from ClusterShell.NodeSet import NodeSet
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import (
    HostlistError,
    expand,
    fold,
    natural_key,
)
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
EXPAND = {
    "": [],
    "n1": ["n1"],
    "n[0-3,5]": ["n0", "n1", "n2", "n3", "n5"],
    "n[08-11]": ["n08", "n09", "n10", "n11"],
    "n[8-09]": ["n8", "n9"],
    "n[98-101]": ["n98", "n99", "n100", "n101"],
    "n[1,1]": ["n1", "n1"],
    "n[5,1,3]": ["n5", "n1", "n3"],
    "n[01-02,1]": ["n01", "n02", "n1"],
    "n[7,08,10]": ["n7", "n08", "n10"],
    "r[0-1]n[0-2]": ["r0n0", "r0n1", "r0n2", "r1n0", "r1n1", "r1n2"],
    "[0-1][0-1]": ["00", "01", "10", "11"],
    "[1-3]": ["1", "2", "3"],
    "n[0-2]-ib0": ["n0-ib0", "n1-ib0", "n2-ib0"],
    "n[0-1]-ib[0-1]s": ["n0-ib0s", "n0-ib1s", "n1-ib0s", "n1-ib1s"],
    "a[1-2]b[1,2]c[0-1]": ["a1b1c0", "a1b1c1", "a2b1c0", "a2b1c1", "a1b2c0", "a1b2c1", "a2b2c0", "a2b2c1"],
    "n[1-2]5": ["n15", "n25"],
    ",a,, b\tc\n": ["a", "b", "c"],
    "a[1-2]b,c": ["a1b", "a2b", "c"],
}

# position -> values that the message has beside the text
REFUSED = {
    "n[1-2": (1, "'['"),
    "x,n[1-2": (3, "'['"),
    "n1]": (2, "']'"),
    "n[1]]": (4, "']'"),
    "n[[1]]": (1, "'['"),
    "n[]": (2, ""),
    "n[1,,2]": (4, ""),
    "n[3-1]": (2, "'3-1' 1-3"),
    "n[1,9-8]": (4, "'9-8' 8-9"),
    "n[0-65536]": (2, "'0-65536' 65536"),
    "n[4-7:2]": (2, "'4-7:2'"),
    "n[1, 2]": (4, "' 2'"),
    "n[+1]": (2, "'+1'"),
    "n[-1]": (2, "'-1'"),
    "n[1-]": (2, "'1-'"),
    "n[a-b]": (2, "'a-b'"),
    "n[0x1]": (2, "'0x1'"),
    "n[\u0661]": (2, "'\u0661'"),
    "n[1-1234567890123456789]": (2, "'1-1234567890123456789' 18"),
    "r[0-65535,70000]n[0]": (10, "65536"),
    "r[0-9999]n[0-9999]": (10, "1048576"),
}

# One of each sentence.
SAID = (
    "n[1-2",
    "n[]",
    "n[3-1]",
    "n[0-65536]",
    "n[a-b]",
    "n[1-1234567890123456789]",
    "r[0-65535,70000]n[0]",
    "r[0-9999]n[0-9999]",
)

FOLD = {
    (): "",
    ("n1",): "n1",
    ("a", "b"): "a,b",
    ("n10", "n08", "n7"): "n[7,08,10]",
    ("n9", "n10", "n11"): "n[9-11]",
    ("n09", "n10", "n11"): "n[09-11]",
    ("n9", "n09", "n10"): "n[9,09-10]",
    ("n1", "n01", "n2", "n02"): "n[1-2,01-02]",
    ("n3", "n1", "n2", "n1"): "n[1-3]",
    ("n1", "n3", "n5"): "n[1,3,5]",
    ("r0n0", "r0n1", "r1n0", "r1n1"): "r[0-1]n[0-1]",
    ("r0n0", "r0n1", "r1n0"): "r0n[0-1],r1n0",
    ("n0-ib0", "n1-ib0"): "n[0-1]-ib0",
    ("b200-n1", "b200-n2"): "b200-n[1-2]",
    ("1", "2"): "[1-2]",
    ("n10", "login", "n9", "a-1"): "a-1,login,n[9-10]",
    ("s12345678901234567890", "s12345678901234567891"): "s12345678901234567890,s12345678901234567891",
    ("s12345678901234567890-1", "s12345678901234567890-2"): "s12345678901234567890-[1-2]",
}


@pytest.mark.parametrize(("text", "names"), EXPAND.items())
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(("text", "problem"), REFUSED.items())
def test_expand_refuses(text: str, problem: tuple[int, str]) -> None:
    with pytest.raises(HostlistError) as caught:
        expand(text)
    position, message = problem
    assert caught.value.position == position
    assert all(value in str(caught.value) for value in message.split())
    assert re.search(rf"\b{position + 1}\b", str(caught.value))
    assert repr(text) in str(caught.value)
    if text in SAID:
        sentences.check(SENTENCES, f"a hostlist {text}", [caught.value])


def test_the_error_for_a_long_hostlist_shows_only_its_surroundings() -> None:
    text = ",".join(f"n{i}" for i in range(1000)) + ",n[3-1]," + ",".join(f"m{i}" for i in range(1000))
    with pytest.raises(HostlistError, match=r"'\.\.\..*,n\[3-1\],.*\.\.\.'") as caught:
        expand(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("names", "text"), FOLD.items())
def test_fold(names: tuple[str, ...], text: str) -> None:
    assert fold(names) == text
    assert fold(reversed(names)) == text


@pytest.mark.parametrize("name", ["", "n[1]", "a,b", "a b", "n1]", "a\tb"])
def test_fold_refuses_what_no_hostlist_can_hold(name: str) -> None:
    with pytest.raises(HostlistError, match=re.escape(repr(name))) as caught:
        fold(["n1", name])
    if name in ("", "a b"):
        sentences.check(SENTENCES, f"a name {name!r} in a hostlist", [caught.value])


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n0-ib0", "n1-ib0"], "n[0-1]-ib[0]"),
        (["n0x", "n1x"], "n0x,n1x"),
        (["n0", "n1"], "n[0-1]"),
        (["r0n0", "r0n1"], "r0n[0-1]"),
        (["n0-ib007"], "n0-ib007"),
    ],
)
def test_fold_for_slurm_that_knows_no_suffix(names: list[str], text: str) -> None:
    assert fold(names, suffixes=False) == text
    assert expand(text) == names


def test_natural_order() -> None:
    names = ["n10", "n2", "n1", "n01", "a", "n2-ib10", "n2-ib9", "N1", "10", "9"]
    ordered = ["9", "10", "N1", "a", "n1", "n01", "n2", "n2-ib9", "n2-ib10", "n10"]
    assert sorted(names, key=natural_key) == ordered


NUMBERS = st.one_of(
    st.integers(0, 12).map(str),
    st.integers(0, 130).map(str),
    st.integers(0, 1100).map(lambda number: f"{number:03d}"),
    st.integers(95, 105).map(lambda number: f"{number:04d}"),
)
LITERALS = st.sampled_from(["n", "r", "-", "gpu-", "b200-", "x", ".", "", "-ib", "*"])
NAMES = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["n", "gpu-b200-", ""]), NUMBERS),
    st.builds("r{}n{}".format, st.integers(0, 3), NUMBERS),
    st.builds("n{}-ib{}".format, st.integers(8, 11), st.integers(0, 2)),
    st.lists(st.one_of(LITERALS, NUMBERS), min_size=1, max_size=5).map("".join).filter(bool),
    st.text(st.characters(blacklist_characters="[], \t\n", blacklist_categories=["Cs"]), min_size=1, max_size=30),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(NAMES, max_size=60), st.booleans())
def test_round_trip(names: list[str], suffixes: bool) -> None:
    text = fold(names, suffixes=suffixes)
    back = expand(text)
    assert sorted(back, key=natural_key) == sorted(set(names), key=natural_key)
    assert fold(back, suffixes=suffixes) == text
    if not suffixes:
        assert all("[" not in word or word.endswith("]") for word in text.replace("],", "]\n").split("\n")[:-1])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([f"r{i}n{j}" for i in range(4) for j in range(6)]), max_size=24))
def test_folding_is_never_longer_than_the_plain_list(names: list[str]) -> None:
    assert len(fold(names)) <= len(",".join(dict.fromkeys(names)))


RANGES = st.tuples(st.integers(0, 120), st.integers(0, 15), st.integers(1, 4)).map(
    lambda r: f"{r[0]:0{r[2]}d}-{r[0] + r[1]}" if r[1] else f"{r[0]:0{r[2]}d}"
)
BRACKETS = st.lists(RANGES, min_size=1, max_size=3).map(lambda parts: f"[{','.join(parts)}]")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["n", "gpu-"]), RANGES), min_size=1, max_size=4))
def test_clustershell_agrees(words: list[tuple[str, str]]) -> None:
    # One range per bracket and equal widths: where ClusterShell and Slurm mean the same.
    text = ",".join(f"{name}[{numbers}]" for name, numbers in words if len(set(map(len, numbers.split("-")))) == 1)
    assert set(expand(text)) == set(NodeSet(text))


@pytest.mark.parametrize("shape", ["rack{0:04d}-n{1:02d}", "n{2:05d}", "n{2}", "n{2}-ib0"])
def test_ten_thousand_names_are_quick(shape: str) -> None:
    names = [shape.format(i // 16, i % 16, i) for i in range(10_000)]
    shuffled = random.Random(1).sample(names, len(names))
    started = time.process_time()
    text = fold(shuffled)
    assert expand(text) == names
    assert time.process_time() - started < 0.5  # some 50 ms each on one core of 2024; a quadratic fold takes seconds
    assert len(text) < 100
