# SPDX-License-Identifier: GPL-3.0-or-later
"""Find accounts and users that Slurm has and the cluster file lacks, and plan the sacctmgr calls that remove them.

They keep their access until they are removed. An account or user with running or waiting jobs is not removed, and neither is an account
above it. Slurm's own root is never removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .accounts_plan import DesiredAccounts, ListedAccounts, rows

ROOT = "root"
# Running and waiting jobs count for their account and their user.
SQUEUE = ["squeue", "--all", "--noheader", "--format=%a|%u"]


@dataclass(frozen=True)
class Unlisted:
    """One account, or with `user` one user of an account; `has_jobs` is true if it has running or waiting jobs."""

    account: str
    user: str = ""
    has_jobs: bool = False

    def __str__(self) -> str:
        text = f"user {self.user} of account {self.account}" if self.user else f"account {self.account}"
        return f"{text} (has jobs)" if self.has_jobs else text


def jobs(squeue: str) -> set[tuple[str, str]]:
    """Return (account, user) of every job, in lower case.

    >>> jobs("research|bob")
    {('research', 'bob')}
    """
    parsed = rows("account|user\n" + squeue)
    return {(row["account"].strip().lower(), row.get("user", "").strip().lower()) for row in parsed if "account" in row}


def unlisted(wanted: DesiredAccounts, state: ListedAccounts, busy: Iterable[tuple[str, str]] = ()) -> list[Unlisted]:
    """Return accounts and users that the cluster file lacks: users before accounts, and accounts before their parents.

    Return nothing if the cluster file has no accounts: then bedplate does not manage them.
    """
    if not wanted.accounts:
        return []
    busy = set(busy)
    listed = {name.lower(): _users(account) for name, account in wanted.accounts.items()}
    with_jobs = _above({account for account, _user in busy}, state)
    users = [
        Unlisted(account, user, (account, user) in busy)
        for account, user in sorted(state.users)
        if user not in listed.get(account, ()) and (account, user) != (ROOT, ROOT)
    ]
    accounts = [
        Unlisted(name, has_jobs=name in with_jobs) for name in state.accounts if name not in listed and name != ROOT
    ]
    return [*users, *sorted(accounts, key=lambda one: (-_depth(one.account, state), one.account))]


def removals(cluster: str, wanted: DesiredAccounts, found: Iterable[Unlisted]) -> list[list[str]]:
    """Return the sacctmgr calls that remove the entries without jobs, in the order of `unlisted`."""
    gone = [one for one in found if not one.has_jobs]
    listed = {name.lower(): (name, _users(account)) for name, account in wanted.accounts.items()}
    todo: list[list[str]] = []
    for one in gone:
        if one.user:
            # Slurm keeps a user's default account, so another one must become the default first.
            others = [name for name, users in listed.values() if one.user in users]
            if others:
                where = ["where", f"cluster={cluster}", "set", f"defaultaccount={others[0]}"]
                todo.append(["modify", "user", one.user, *where])
            todo.append(["delete", "user", one.user, "where", f"cluster={cluster}", f"account={one.account}"])
        else:
            todo.append(["delete", "account", one.account, "where", f"cluster={cluster}"])
    return todo


def _users(account: Mapping[str, object]) -> list[str]:
    users = account.get("users", [])
    return [str(user).lower() for user in users] if isinstance(users, (list, tuple)) else []


def _above(accounts: Iterable[str], state: ListedAccounts) -> set[str]:
    """Return accounts and all accounts above them."""
    found: set[str] = set()
    todo = list(accounts)
    while todo:
        name = todo.pop()
        if name and name not in found:
            found.add(name)
            todo.append(state.accounts.get(name, {}).get("parentname", "").lower())
    return found


def _depth(account: str, state: ListedAccounts) -> int:
    return len(_above([account], state))
