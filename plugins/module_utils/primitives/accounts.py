# SPDX-License-Identifier: GPL-3.0-or-later
"""Make system users and groups with stated numbers, and refuse numbers that this machine uses otherwise."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common import command
from ..common.command import Outcome

KEYS = ("name", "uid", "gid", "place")
"""Keys of an entry of `accounts`; all but `place` are required."""
_LARGEST = 4294967293
_NO_LOGIN = ("--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin")


class AccountsError(Exception):
    """Accounts that cannot be made; the text names all of them."""


@dataclass(frozen=True)
class Account:
    """A system user with a group of the same name. `place`: where the numbers are stated, such as a key of the cluster file."""

    name: str
    uid: int
    gid: int
    place: str = ""

    @property
    def stated(self) -> str:
        """Return the place for messages."""
        return self.place or "accounts"


class Names:
    """Users and groups of this machine, of every source that it has: files, LDAP, SSSD."""

    def user(self, name: str) -> tuple[int, int] | None:
        """Return uid and primary gid of a user; None without this user."""
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            return None
        return found.pw_uid, found.pw_gid

    def group(self, name: str) -> int | None:
        """Return the gid of a group; None without this group."""
        try:
            return grp.getgrnam(name).gr_gid
        except KeyError:
            return None

    def user_of(self, uid: int) -> str:
        """Return the name of the user of a number; "" if it is free."""
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return ""

    def group_of(self, gid: int) -> str:
        """Return the name of the group of a number; "" if it is free."""
        try:
            return grp.getgrgid(gid).gr_name
        except KeyError:
            return ""


def mistakes(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return everything that is wrong with entries of `accounts`."""
    found = []
    for number, entry in enumerate(entries):
        where = f"accounts[{number}]"
        if unknown := sorted(set(entry) - set(KEYS)):
            found.append(f"{where}: key {unknown[0]!r} is unknown; allowed: {', '.join(KEYS)}")
        if not entry.get("name") or not isinstance(entry["name"], str):
            found.append(f"{where}: name: {entry.get('name')!r}; allowed: the name of a user")
        for key in ("uid", "gid"):
            value = entry.get(key)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _LARGEST:
                found.append(f"{where}: {key}: {value!r}; allowed: a number from 1 to {_LARGEST}")
    return found


def read(entries: Sequence[Mapping[str, Any]]) -> list[Account]:
    """Return the accounts of entries without mistakes."""
    return [Account(one["name"], one["uid"], one["gid"], one.get("place", "")) for one in entries]


def refused(accounts: Sequence[Account], names: Names) -> list[str]:
    """Return why accounts cannot be made here, a line each; nothing where they exist or can be made."""
    return [line for account in accounts for line in _refused(account, names)]


def _refused(account: Account, names: Names) -> Iterator[str]:
    name, there = account.name, names.user(account.name)
    if there and there != (account.uid, account.gid):
        yield (
            f"{account.stated}: user {name} has uid {there[0]} and gid {there[1]} on this machine, expected uid {account.uid} and gid "
            f"{account.gid}. Allowed: one number on all machines of the cluster. State the number that the machines have. Or stop "
            f"the daemons of {name} here, change it (usermod --uid, groupmod --gid), and give {name} its files again (chown)."
        )
    elif not there:
        if other := names.user_of(account.uid):
            yield _taken(account, "uid", account.uid, f"user {other}")
        gid = names.group(name)
        if gid is not None and gid != account.gid:
            yield (
                f"{account.stated}: group {name} has gid {gid} on this machine, expected {account.gid}. Allowed: one number on all "
                f"machines of the cluster. State the machines' number, or change it here (groupmod --gid {account.gid} {name})."
            )
        elif gid is None and (other := names.group_of(account.gid)):
            yield _taken(account, "gid", account.gid, f"group {other}")


def _taken(account: Account, kind: str, number: int, owner: str) -> str:
    return (
        f"{account.stated}: {kind} {number} of {account.name} belongs to {owner} on this machine. Allowed: a number that is free on all "
        "machines of the cluster. State another number."
    )


def missing(accounts: Sequence[Account], names: Names) -> list[Account]:
    """Return the accounts that must be made."""
    return [one for one in accounts if names.user(one.name) is None]


def make(accounts: Sequence[Account], names: Names, run: Callable[[list[str]], Outcome] = command.run) -> None:
    """Make users, each with its group. Without a home and a shell: only daemons run as them. AccountsError: a command failed."""
    for account in accounts:
        numbers = ["--uid", str(account.uid), "--gid", account.name]
        commands = [["useradd", "--system", *numbers, *_NO_LOGIN, account.name]]
        if names.group(account.name) is None:
            commands.insert(0, ["groupadd", "--system", "--gid", str(account.gid), account.name])
        for argv in commands:
            outcome = run(argv)
            if outcome.code != 0:
                raise AccountsError(f"{' '.join(argv)}: {outcome.error_line}")
