# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's accounting objects: what is wanted against what sacctmgr lists, as the sacctmgr calls that close the gap.

Objects that are not named are left alone: history hangs on them, and users are often managed by other means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Wanted:
    """The wanted objects: `qos` name -> options; `accounts` name -> description, organization, parent, users, qos, default_qos."""

    qos: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    accounts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass
class Found:
    """What sacctmgr lists: `qos` name -> option (lower case) -> value; `accounts` name -> parent; `users` (account, user) -> options."""

    qos: dict[str, dict[str, str]] = field(default_factory=dict)
    accounts: dict[str, dict[str, str]] = field(default_factory=dict)
    users: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)


def rows(text: str) -> list[dict[str, str]]:
    """Parse `sacctmgr --parsable2 list ...` with its header line; keys in lower case without blanks.

    >>> rows("Name|Def QOS\\nroot|normal")
    [{'name': 'root', 'defqos': 'normal'}]
    """
    lines = text.splitlines()
    if not lines:
        return []
    header = [name.lower().replace(" ", "") for name in lines[0].split("|")]
    return [dict(zip(header, line.split("|"))) for line in lines[1:]]


def found(qos: str, associations: str) -> Found:
    """Read the outputs of `sacctmgr list qos` and `sacctmgr list associations`."""
    state = Found(qos={row["name"]: row for row in rows(qos)})
    for row in rows(associations):
        if row["user"]:
            state.users[(row["account"], row["user"])] = row
        else:
            state.accounts[row["account"]] = row
    return state


def calls(cluster: str, wanted: Wanted, state: Found) -> list[list[str]]:
    """Return the sacctmgr calls, in order, that bring `state` to `wanted`; empty when nothing is to do."""
    todo: list[list[str]] = []
    for name, options in wanted.qos.items():
        todo += _qos(name, options, state)
    for name, account in wanted.accounts.items():
        todo += _account(cluster, name, account, state)
    return todo


def _qos(name: str, options: Mapping[str, object], state: Found) -> list[list[str]]:
    todo = [] if name in state.qos else [["add", "qos", name]]
    current = state.qos.get(name, {})
    changed = {key: str(value) for key, value in options.items() if current.get(key.lower(), "") != str(value)}
    if changed:
        todo.append(["modify", "qos", name, "set", *_pairs(changed)])
    return todo


def _account(cluster: str, name: str, account: Mapping[str, object], state: Found) -> list[list[str]]:
    todo: list[list[str]] = []
    parent = str(account.get("parent", "root"))
    if name not in state.accounts:
        described = {"description": account.get("description", name), "organization": account.get("organization", name)}
        todo.append(["add", "account", name, *_pairs({"cluster": cluster, "parent": parent, **described})])
    elif state.accounts[name].get("parentname", parent) != parent:
        todo.append(["modify", "account", name, "where", f"cluster={cluster}", "set", f"parent={parent}"])
    todo += _levels("account", name, [f"cluster={cluster}"], account, state.accounts.get(name, {}))
    users = account.get("users", [])
    assert isinstance(users, Sequence)
    for user in users:
        if (name, str(user)) not in state.users:
            todo.append(["add", "user", str(user), f"cluster={cluster}", f"account={name}"])
    return todo


def _levels(
    kind: str, name: str, where: list[str], account: Mapping[str, object], current: Mapping[str, str]
) -> list[list[str]]:
    wanted: dict[str, object] = {}
    qos = account.get("qos")
    if (
        isinstance(qos, Sequence)
        and qos
        and sorted(map(str, qos)) != sorted(filter(None, current.get("qos", "").split(",")))
    ):
        wanted["qos"] = ",".join(map(str, qos))
    default = account.get("default_qos")
    if default is not None and current.get("defqos", "") != str(default):
        wanted["defaultqos"] = default
    return [["modify", kind, name, "where", *where, "set", *_pairs(wanted)]] if wanted else []


def _pairs(options: Mapping[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in options.items()]
