# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the sacctmgr calls that change the listed accounting objects into the desired ones.

Objects that the cluster file does not name are not changed: accounting records refer to them, and users are often managed by other means.
sacctmgr stores the names of accounts and QOS in lower case, and those of users too unless slurmdbd has PreserveCaseUser; so case is ignored
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...common.text import did_you_mean

# sacctmgr(1), SPECIFICATIONS FOR QOS, with the accepted abbreviations.
_QOS = [
    "Description",
    "Flags",
    "GraceTime",
    "GrpJobs",
    "GrpJobsAccrue",
    "GrpSubmitJobs",
    "GrpSubmit",
    "GrpTRES",
    "GrpTRESMins",
    "GrpTRESRunMins",
    "GrpWall",
    "LimitFactor",
    "MaxJobs",
    "MaxJobsAccruePerAccount",
    "MaxJobsAccruePA",
    "MaxJobsAccruePerUser",
    "MaxJobsAccruePU",
    "MaxJobsPerAccount",
    "MaxJobsPA",
    "MaxJobsPerUser",
    "MaxJobsPU",
    "MaxSubmitJobs",
    "MaxSubmitJobsPerAccount",
    "MaxSubmitJobsPA",
    "MaxSubmitPA",
    "MaxSubmitJobsPerUser",
    "MaxSubmitJobsPU",
    "MaxSubmitPU",
    "MaxTRES",
    "MaxTRESMins",
    "MaxTRESMinsPerJob",
    "MaxTRESPerAccount",
    "MaxTRESPA",
    "MaxTRESPerJob",
    "MaxTRESPJ",
    "MaxTRESPerNode",
    "MaxTRESPN",
    "MaxTRESPerUser",
    "MaxTRESPU",
    "MaxTRESRunMinsPerAccount",
    "MaxTRESRunMinsPA",
    "MaxTRESRunMinsPerUser",
    "MaxTRESRunMinsPU",
    "MaxWall",
    "MaxWallDurationPerJob",
    "MinPrioThreshold",
    "MinTRES",
    "MinTRESPerJob",
    "Preempt",
    "PreemptExemptTime",
    "PreemptMode",
    "Priority",
    "UsageFactor",
    "UsageThreshold",
]


@dataclass
class DesiredAccounts:
    """Desired objects: `qos` name -> options; `accounts` name -> description, organization, parent, users, qos, default_qos."""

    qos: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    accounts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def qos_options(self) -> list[str]:
        """Return the options that any QOS sets, in lower case."""
        return list(dict.fromkeys(key.lower() for options in self.qos.values() for key in options))

    def problems(self) -> list[str]:
        """Return desired names that are different here and the same for Slurm."""
        return [
            f"{kind} {one} and {other} are the same for Slurm, which ignores case. Keep one of them"
            for kind, names in (("accounts", self.accounts), ("QOS", self.qos))
            for one, other in _twice(names)
        ]


def _twice(names: Iterable[str]) -> list[tuple[str, str]]:
    first: dict[str, str] = {}
    return [(first[name.lower()], name) for name in names if first.setdefault(name.lower(), name) != name]


@dataclass
class ListedAccounts:
    """Objects that sacctmgr lists, all names in lower case: `qos` name -> option -> value; `accounts` and `users` -> their columns."""

    qos: dict[str, dict[str, str]] = field(default_factory=dict)
    accounts: dict[str, dict[str, str]] = field(default_factory=dict)
    users: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)


def rows(text: str, columns: Sequence[str] = ()) -> list[dict[str, str]]:
    """Parse `sacctmgr --parsable2 list ...` with its header line; keys in lower case without blanks, or `columns` instead.

    >>> rows("Name|Def QOS\\nroot|normal")
    [{'name': 'root', 'defqos': 'normal'}]
    """
    lines = text.splitlines()
    if not lines:
        return []
    header = columns or [name.lower().replace(" ", "") for name in lines[0].split("|")]
    return [dict(zip(header, line.split("|"))) for line in lines[1:]]


def found(qos: str, associations: str, options: Sequence[str] = ()) -> ListedAccounts:
    """Parse `sacctmgr list qos format=Name,<options>` and `sacctmgr list associations`.

    Columns are named by the requested options: sacctmgr uses other headings for some, such as MaxTRESPU for MaxTRESPerUser.
    """
    columns = ["name", *options] if options else []
    state = ListedAccounts(qos={row["name"].lower(): row for row in rows(qos, columns)})
    for row in rows(associations):
        account = row.get("account", "").lower()
        if row.get("user"):
            state.users[(account, row["user"].lower())] = row
        elif account:
            state.accounts[account] = row
    return state


def calls(cluster: str, wanted: DesiredAccounts, state: ListedAccounts) -> list[list[str]]:
    """Return the sacctmgr calls, in order, that change `state` into `wanted`; empty if there is nothing to do."""
    todo: list[list[str]] = []
    for name, options in wanted.qos.items():
        todo += _qos(name, options, state)
    for name, account in wanted.accounts.items():
        todo += _account(cluster, name, account, state)
    return todo


def qos_problems(options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield each option of a QOS that sacctmgr would refuse, with the reason.

    >>> list(qos_problems({"Prioritty": 5}))
    [('Prioritty', "sacctmgr has no QOS option 'Prioritty'. Did you mean Priority?")]
    """
    known = {name.lower() for name in _QOS}
    for key, value in options.items():
        if str(key).lower() not in known:
            manual = "sacctmgr(1) lists them: SPECIFICATIONS FOR QOS."
            hint = did_you_mean(str(key), _QOS, lead="Did", quoted=False, fold=True, otherwise=manual)
            yield key, f"sacctmgr has no QOS option {str(key)!r}. {hint}"
        elif value is None or isinstance(value, Mapping):
            yield (
                key,
                f"{key} is {'empty' if value is None else 'a mapping'}. Allowed: text, a number, a list; -1 for no limit.",
            )


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _same(one: object, other: object) -> bool:
    """Compare as sacctmgr does: ignore case, and the order of a list."""
    return set(_text(one).lower().split(",")) == set(_text(other).lower().split(","))


def _qos(name: str, options: Mapping[str, object], state: ListedAccounts) -> list[list[str]]:
    current = state.qos.get(name.lower())
    todo = [["add", "qos", name]] if current is None else []
    listed = current or {}
    changed = {key: _text(value) for key, value in options.items() if not _same(listed.get(key.lower(), ""), value)}
    if changed:
        todo.append(["modify", "qos", name, "set", *_pairs(changed)])
    return todo


def _account(cluster: str, name: str, account: Mapping[str, object], state: ListedAccounts) -> list[list[str]]:
    todo: list[list[str]] = []
    parent = str(account.get("parent", "root"))
    current = state.accounts.get(name.lower())
    if current is None:
        described = {"description": account.get("description", name), "organization": account.get("organization", name)}
        todo.append(["add", "account", name, *_pairs({"cluster": cluster, "parent": parent, **described})])
    elif not _same(current.get("parentname", parent), parent):
        todo.append(["modify", "account", name, "where", f"cluster={cluster}", "set", f"parent={parent}"])
    todo += _levels(name, [f"cluster={cluster}"], account, current or {})
    users = account.get("users", [])
    if not isinstance(users, Sequence):
        raise AssertionError("users: a list")
    for user in {str(user).lower(): str(user) for user in users}.values():
        if (name.lower(), user.lower()) not in state.users:
            todo.append(["add", "user", user, f"cluster={cluster}", f"account={name}"])
    return todo


def _levels(name: str, where: list[str], account: Mapping[str, object], current: Mapping[str, str]) -> list[list[str]]:
    wanted: dict[str, object] = {}
    qos = account.get("qos")
    if isinstance(qos, Sequence) and qos:
        names = list(map(str, qos))
        if {one.lower() for one in names} != set(filter(None, current.get("qos", "").lower().split(","))):
            wanted["qos"] = ",".join(names)
    default = account.get("default_qos")
    if default is not None and not _same(current.get("defqos", ""), default):
        wanted["defaultqos"] = default
    return [["modify", "account", name, "where", *where, "set", *_pairs(wanted)]] if wanted else []


def _pairs(options: Mapping[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in options.items()]
