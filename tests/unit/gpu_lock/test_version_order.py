"""The order of package versions: as dpkg and rpm say."""

from __future__ import annotations

import itertools
import random
import subprocess

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock.version_order import (
    compare_deb,
    compare_rpm,
    newest_first,
)

# Of real packages, and what their rules treat in a way of its own.
KNOWN = (
    "580.65.06-1", "580.126.09-1", "1:4.6.0-1", "4.7.0-1", "3:580.65.06-1.el9", "2.28.9-1+cuda12.9", "2.28.9-1+cuda13.0",
    "535.171.04-1~deb12u1", "535.171.04-1", "11.8.89~11.8.0-5~deb12u1", "550.163.01-2", "550.163.01-10", "1.0~~a-1", "1.0~a-1",
    "1.0-1", "1.0a-1", "1.0+b-1", "1.00-1", "0:1.0-1", "1.0-", "1.0", "20240109+1", "1.18.2~rc.1-1",
)  # fmt: skip
LETTERS = "019a~+.Z"


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


def made(count: int) -> list[str]:
    dice = random.Random(17)
    found = []
    for _ in range(count):
        upstream = dice.choice("0129") + "".join(dice.choices(LETTERS, k=dice.randrange(6)))
        revision = "".join(dice.choices(LETTERS, k=dice.randrange(1, 4)))
        found.append(f"{dice.choice(['', '1:'])}{upstream}{dice.choice(['', f'-{revision}'])}")
    return found


@pytest.mark.tools("dpkg")
def test_the_order_is_that_of_dpkg():
    pairs = [*itertools.combinations(KNOWN[:12], 2), *itertools.combinations(KNOWN[12:], 2)]
    pairs += list(itertools.pairwise(made(160)))
    for one, other in pairs:
        if one.endswith("-") or other.endswith("-"):
            continue
        found = [
            subprocess.run(["dpkg", "--compare-versions", one, word, other], check=False).returncode == 0
            for word in ("lt", "gt")
        ]
        assert sign(compare_deb(one, other)) == found[1] - found[0], (one, other)


@pytest.mark.tools("rpm")
def test_the_order_is_that_of_rpm():
    pairs = [(one, other) for one, other in itertools.pairwise((*KNOWN, *made(60)))]
    pairs += [("1.0^a-1", "1.0-1"), ("1.0^a-1", "1.0.1-1"), ("1.0^-1", "1.0^a-1"), ("1.0~a-1", "1.0^a-1")]
    # rpm compares single texts: epoch, version and release one after the other, as here.
    plain = [(one, other) for one, other in pairs if ":" not in one + other and "-" not in one + other]
    plain += [(one.partition("-")[0], other.partition("-")[0]) for one, other in pairs if ":" not in one + other]
    asked = ", ".join(f"rpm.vercmp('{one}', '{other}')" for one, other in plain)
    program = f"%{{lua:print(table.concat({{{asked}}}, ' '))}}"
    said = subprocess.run(["rpm", "--eval", program], capture_output=True, text=True, check=True)
    assert [sign(compare_rpm(one, other)) for one, other in plain] == [int(one) for one in said.stdout.split()]


def test_an_epoch_and_a_release_count_in_rpm():
    assert compare_rpm("3:1.0-1.el9", "2.0-1.el9") > 0
    assert compare_rpm("1.0-2.el9", "1.0-10.el9") < 0


def test_the_newest_is_first_and_there_once():
    versions = ["580.65.06-1", "580.126.09-1", "580.65.06-1", "580.126.09-1~rc1"]
    assert newest_first("deb", versions) == ["580.126.09-1", "580.126.09-1~rc1", "580.65.06-1"]
    assert newest_first("rpm", ["1-1", "3:0-1"]) == ["3:0-1", "1-1"]
