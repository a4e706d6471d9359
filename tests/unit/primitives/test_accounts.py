# SPDX-License-Identifier: GPL-3.0-or-later
"""Users with stated numbers: made where they are missing, refused where a number or a name is used otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives import accounts
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.accounts import Account, Names
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
SLURM = Account("slurm", 64030, 64030, "lab.bedplate.yml:9: slurm.users.slurm")


class Machine(Names):
    """A machine with these users (name -> uid, gid) and groups (name -> gid)."""

    def __init__(self, users: dict[str, tuple[int, int]] | None = None, groups: dict[str, int] | None = None) -> None:
        self.users, self.groups = users or {}, groups or {}

    def user(self, name: str) -> tuple[int, int] | None:
        return self.users.get(name)

    def group(self, name: str) -> int | None:
        return self.groups.get(name)

    def user_of(self, uid: int) -> str:
        return next((name for name, (found, _gid) in self.users.items() if found == uid), "")

    def group_of(self, gid: int) -> str:
        return next((name for name, found in self.groups.items() if found == gid), "")


def commands(machine: Machine, *wanted: Account) -> list[str]:
    ran: list[str] = []

    def run(argv: list[str]) -> Outcome:
        ran.append(" ".join(argv))
        return Outcome(0, "", "")

    accounts.make(accounts.missing(wanted, machine), machine, run)
    return ran


def test_a_missing_user_is_made_with_its_group_and_numbers() -> None:
    assert accounts.refused([SLURM], Machine()) == []
    group, user = commands(Machine(), SLURM)
    assert group == "groupadd --system --gid 64030 slurm"
    assert user.startswith("useradd --system --uid 64030 --gid slurm ")
    assert user.endswith("--shell /usr/sbin/nologin slurm")


def test_a_group_that_exists_with_its_number_stays() -> None:
    machine = Machine(groups={"slurm": 64030})
    assert accounts.refused([SLURM], machine) == []
    assert [one.split()[0] for one in commands(machine, SLURM)] == ["useradd"]


def test_a_user_that_exists_with_its_numbers_stays() -> None:
    machine = Machine({"slurm": (64030, 64030)}, {"slurm": 64030})
    assert accounts.refused([SLURM], machine) == []
    assert commands(machine, SLURM) == []


@pytest.mark.parametrize(
    ("case", "machine", "values"),
    [
        ("another uid", Machine({"slurm": (981, 981)}, {"slurm": 981}), ("uid 981 and gid 981", "uid 64030 and gid 64030")),
        ("another primary group", Machine({"slurm": (64030, 100)}), ("gid 100", "gid 64030")),
        ("a uid of another user", Machine({"nslcd": (64030, 5)}), ("uid 64030", "user nslcd")),
        ("a group of another number", Machine(groups={"slurm": 77}), ("gid 77", "64030")),
        ("a gid of another group", Machine(groups={"storage": 64030}), ("gid 64030", "group storage")),
    ],
)  # fmt: skip
def test_a_number_that_is_used_otherwise_is_refused(case: str, machine: Machine, values: tuple[str, ...]) -> None:
    (line,) = accounts.refused([SLURM], machine)
    assert line.startswith("lab.bedplate.yml:9: slurm.users.slurm: ")
    assert [one for one in values if one not in line] == []
    sentences.check(SENTENCES, f"accounts: {case}", [line])


def test_all_that_is_refused_is_said_at_once() -> None:
    machine = Machine({"nslcd": (64030, 5), "munge": (1, 1)}, {"storage": 64030})
    assert len(accounts.refused([SLURM, Account("munge", 64031, 64031)], machine)) == 3


def test_a_command_that_fails_is_named() -> None:
    with pytest.raises(accounts.AccountsError, match="groupadd --system --gid 64030 slurm: no space"):
        accounts.make([SLURM], Machine(), lambda argv: Outcome(10, "", "no space"))


@pytest.mark.parametrize(
    ("entry", "where"),
    [
        ({"name": "slurm", "uid": 1, "gid": 1, "gecos": "x"}, "accounts[0]: key 'gecos'"),
        ({"uid": 1, "gid": 1}, "accounts[0]: name: None"),
        ({"name": "slurm", "uid": "1", "gid": 1}, "accounts[0]: uid: '1'"),
        ({"name": "slurm", "uid": True, "gid": 1}, "accounts[0]: uid: True"),
        ({"name": "slurm", "uid": 1, "gid": 0}, "accounts[0]: gid: 0"),
    ],
)
def test_mistakes_of_entries(entry: dict[str, Any], where: str) -> None:
    (line,) = accounts.mistakes([entry])
    assert line.startswith(where)


def test_names_of_this_machine() -> None:
    names = Names()
    assert (names.user("root"), names.group("root"), names.user_of(0), names.group_of(0)) == ((0, 0), 0, "root", "root")
    assert (names.user("bedplate-none"), names.group("bedplate-none")) == (None, None)
    assert (names.user_of(4294960000), names.group_of(4294960000)) == ("", "")
