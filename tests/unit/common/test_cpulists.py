"""Lists of CPUs, and Slurm's numbers of cores."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.common.cpulists import (
    CpulistError,
    CpuPlace,
    core_numbers,
    cores_of,
    cpu_numbers,
    fold,
    mask,
    parse,
)
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
quickly = settings(derandomize=True, deadline=None, max_examples=60)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", ()),
        (" 0-3,8\n", (0, 1, 2, 3, 8)),
        ("0-3,8,10-15:2", (0, 1, 2, 3, 8, 10, 12, 14)),
        ("1-7:2", (1, 3, 5, 7)),
        ("0-7:2/4", (0, 1, 4, 5)),
        ("5,3,3-4", (3, 4, 5)),
        ("7-7", (7,)),
    ],
)
def test_a_list_is_read(text: str, cpus: tuple[int, ...]) -> None:
    assert parse(text) == cpus


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-", []),
        ("a", []),
        ("0x3", []),
        ("3-1", ["65535"]),
        ("0-99999", ["65535"]),
        ("0-7:0", ["0"]),
        ("0-7:3/2", ["3", "2"]),
        ("-1", []),
    ],
)
def test_what_is_no_list_is_named(text: str, numbers: list[str]) -> None:
    with pytest.raises(CpulistError) as caught:
        parse(f"8,{text}")
    assert str(caught.value).startswith(f"'8,{text}' ")
    why = str(caught.value).partition(f": {text!r} ")[2]
    assert set(numbers) <= set(re.findall(r"\d+", why))
    if numbers or text == "0-":
        sentences.check(SENTENCES, f"a list of CPUs with {text}", [caught.value])


@quickly
@given(st.sets(st.integers(0, 300)))
def test_what_is_folded_is_read_again(cpus: set[int]) -> None:
    assert parse(fold(cpus)) == tuple(sorted(cpus))


@quickly
@given(st.text("0123456789-:/, \n", max_size=12))
def test_a_text_is_a_list_or_refused(text: str) -> None:
    with suppress(CpulistError):
        cpus = parse(text)
        assert parse(fold(cpus)) == cpus
        assert {int(word) for word in re.findall("[0-9]+", text)}.issuperset(cpus[:1])


@quickly
@given(st.sets(st.integers(0, 300)), st.integers(1, 400))
def test_a_mask_has_a_bit_for_each_cpu(cpus: set[int], width: int) -> None:
    text = mask(cpus, width)
    assert {len(word) for word in text.split(",")} == {8}
    assert len(text.split(",")) * 32 >= width
    bits = int(text.replace(",", ""), 16)
    assert {cpu for cpu in range(500) if bits >> cpu & 1} == cpus


def test_cores_are_numbered_socket_by_socket_where_linux_takes_turns() -> None:
    # Even CPUs at one socket, odd ones at the other; 4 to 7 are the second threads.
    places = [CpuPlace(cpu, cpu % 2, cpu % 2, cpu % 2, cpu % 4) for cpu in range(8)]
    cores = cores_of(places)
    assert [(core.number, core.socket, core.cpus) for core in cores] == [
        (0, 0, (0, 4)),
        (1, 0, (2, 6)),
        (2, 1, (1, 5)),
        (3, 1, (3, 7)),
    ]
    assert core_numbers(cores, [6, 7]) == (1, 3)
    assert cpu_numbers(cores, [1, 2]) == (1, 2, 5, 6)


def test_cores_follow_each_other_cache_by_cache() -> None:
    # Two caches whose CPUs take turns: hwloc, and so Slurm, goes through one cache before the other.
    places = [CpuPlace(cpu, 0, 0, cpu % 2, cpu) for cpu in range(4)]
    assert [core.cpus for core in cores_of(places)] == [(0,), (2,), (1,), (3,)]
