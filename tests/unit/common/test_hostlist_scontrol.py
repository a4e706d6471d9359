# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostlists against the real ``scontrol show hostnames/hostlist``: thousands of cases, a few calls."""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, expand, fold

pytestmark = pytest.mark.tools("scontrol")

CASES = 2000
Show = Callable[[str, list[str]], list[list[str]]]


@pytest.fixture(scope="module")
def scontrol(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[str]], str]:
    """Run scontrol with a configuration that names no controller it could reach."""
    conf: Path = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    conf.write_text("ClusterName=test\nSlurmctldHost=localhost\n")
    # Readline must not wrap the echo of a long command.
    env = {**os.environ, "SLURM_CONF": str(conf), "COLUMNS": "30000", "LINES": "25", "TERM": "dumb"}

    def run(lines: list[str]) -> str:
        command = ["scontrol"] if lines else ["scontrol", "--version"]
        text = "".join(line + "\n" for line in lines)
        return subprocess.run(
            command, input=text, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
        ).stdout

    return run


@pytest.fixture(scope="module")
def show(scontrol: Callable[[list[str]], str]) -> Show:
    """Ask for many hostlists in one call; scontrol repeats each command before its answer."""

    def run(what: str, texts: list[str]) -> list[list[str]]:
        output = scontrol([f"show {what} {text}" for text in texts])
        answers = output.split(f"scontrol: show {what} ")[1:]
        assert len(answers) == len(texts), output[-500:]
        answers[-1] = answers[-1].removesuffix("scontrol: \n").removesuffix("scontrol: ")
        for text, answer in zip(texts, answers, strict=True):
            assert answer.startswith(text + "\n")
        return [answer.splitlines()[1:] for answer in answers]

    return run


@pytest.fixture(scope="module")
def suffixes(scontrol: Callable[[list[str]], str]) -> bool:
    """Whether this scontrol reads text after the last bracket: from 23.11 on."""
    version = re.search(r"(\d+)\.(\d+)", scontrol([]))
    assert version
    return (int(version[1]), int(version[2])) >= (23, 11)


def some_number(rng: random.Random) -> str:
    number = rng.choice([0, 1, 7, 8, 9, 10, 11, 95, 99, 100, 101, 998, 1000]) + rng.randrange(3)
    return f"{number:0{rng.choice([1, 1, 2, 3, 4])}d}"


def some_range(rng: random.Random) -> str:
    low = some_number(rng)
    return rng.choice([low, f"{low}-{int(low) + rng.randrange(14):0{rng.randrange(4)}d}"])


def some_word(rng: random.Random, suffixes: bool) -> str:
    word = rng.choice(["n", "gpu-", "r0n", "a.b-", "b200-x"])
    if rng.random() < 0.2:
        return word + some_number(rng)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        word += f"[{','.join(some_range(rng) for _ in range(rng.choice([1, 1, 2, 3])))}]" + rng.choice(["", "n", "-ib"])
    return word + rng.choice(["", "-ib0", "s"]) if suffixes else word[: word.rindex("]") + 1]


def some_names(rng: random.Random) -> list[str]:
    shape = rng.choice(["n{0}", "r{1}n{0}", "r{1}-{1}n{0}", "gpu-b200-{0}", "n{1}-ib{2}", "{0}", "n{0}x", "x"])
    names = [
        shape.format(some_number(rng), rng.randrange(3), rng.randrange(2)) for _ in range(rng.choice([1, 3, 10, 40]))
    ]
    return names + rng.choice([[], ["login"], ["n7", "n08", "n10"]])


def test_expand_is_what_show_hostnames_prints(show: Show, suffixes: bool) -> None:
    rng = random.Random("expand")
    texts = [",".join(some_word(rng, suffixes) for _ in range(rng.choice([1, 1, 2, 4]))) for _ in range(CASES)]
    wrong = [
        (text, names[:9]) for text, names in zip(texts, show("hostnames", texts), strict=True) if expand(text) != names
    ]
    assert not wrong


def test_slurm_expands_what_fold_writes_to_the_same_names(show: Show, suffixes: bool) -> None:
    rng = random.Random("fold")
    cases = [some_names(rng) for _ in range(CASES)]
    texts = [fold(names, suffixes=suffixes) for names in cases]
    answers = show("hostnames", texts)
    wrong = [
        (names, text)
        for names, text, back in zip(cases, texts, answers, strict=True)
        if sorted(back) != sorted({*names})
    ]
    assert not wrong


def test_expand_reads_what_show_hostlist_writes(show: Show) -> None:
    rng = random.Random("hostlist")
    cases = [some_names(rng) for _ in range(CASES)]
    answers = show("hostlist", [",".join(names) for names in cases])
    wrong = [(names, answer) for names, answer in zip(cases, answers, strict=True) if expand(answer[0]) != names]
    assert not wrong


def test_slurm_refuses_what_expand_refuses(show: Show) -> None:
    texts = ["n[]", "n[1,,2]", "n[3-1]", "n[0-65536]", "n[4-7:2]", "n[-1]", "n[a-b]", "n[0x1]", "n[1-2-3]"]
    for text, answer in zip(texts, show("hostnames", texts), strict=True):
        assert f"Invalid hostlist: {text}" in answer
        with pytest.raises(HostlistError):
            expand(text)
