# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's release, options and accounts, checked before any machine is touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.accounts_plan import qos_problems

from ..slurm.tables import options
from ..slurm.tables.conf_text import text_of
from .model import Profile, Slurm
from .schema.fields import Mistakes, Path
from .script_files import check_scripts, scripts_of

# What the rest of the file says already, and where: a second word on it could only contradict.
_DERIVED = {
    "slurm": {
        "clustername": "cluster", "slurmctldhost": "services.controllers", "nodename": "racks",
        "partitionname": "partitions", "nodeset": "partitions", "downnodes": "racks.<name>.exceptions",
    },
    "partition": {
        "partitionname": "its name", "nodes": "partitions.<name>.nodes", "default": "partitions.<name>.default",
        "maxtime": "partitions.<name>.max_time",
    },
    "slurmdbd": {"dbdhost": "services.database", "dbdaddr": "services.database"},
}  # fmt: skip


_DBD_PORT = "6819"
# Slurm's own default, in slurm.conf and slurmdbd.conf.
_HASH_PLUGIN = "hash/k12"
# Options of a partition that name QOS.
PARTITION_QOS = ("qos", "allowqos", "denyqos")


def slurm_of(data: Mapping[str, Any] | None, database: bool, mistakes: Mistakes, file: str = "") -> Slurm:
    """Return Slurm's part of the file."""
    if data is None:
        return Slurm("24.11", {}, {}, {}, {}, {})
    accounts = {name: _stated(account) for name, account in data["accounts"].items()}
    _check_accounts(accounts, data["qos"], database, mistakes)
    _check_qos(data["qos"], mistakes)
    _check_users(accounts, data["slurmdbd"], mistakes)
    version = data["version"] or "24.11"
    scripts = scripts_of(data, file, mistakes)
    check_scripts(scripts, data["options"], version, mistakes)
    return Slurm(version, data["options"], data["cgroup"], data["slurmdbd"], data["qos"], accounts, scripts)


def _stated(account: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in account.items() if value is not None and value != []}


def check_options(
    slurm: Slurm, partitions: Mapping[str, Any], profiles: Mapping[str, Profile], database: bool, mistakes: Mistakes
) -> None:
    """Note every option that this release of Slurm would refuse or ignore; `database`: whether it is of services.database."""
    places: list[tuple[Path, str, Mapping[str, Any]]] = [
        (("slurm", "options"), "slurm", slurm.options),
        (("slurm", "cgroup"), "cgroup", slurm.cgroup),
        (("slurm", "slurmdbd"), "slurmdbd", slurm.slurmdbd),
        *((("partitions", name, "options"), "partition", part["options"]) for name, part in partitions.items()),
    ]
    try:
        options.release(slurm.version)
    except options.UnknownVersionError as error:
        mistakes.add(("slurm", "version"), str(error))
        return
    for path, kind, given in places:
        _check_kind(slurm.version, kind, given, path, mistakes)
    for name, part in partitions.items():
        _check_partition_qos(slurm, part["options"], ("partitions", name, "options"), mistakes)
    if database:
        _check_ports(slurm, mistakes)
        _check_hash(slurm, mistakes)
    for profile in profiles.values():
        if profile.gpus and profile.gpus.detect != "explicit":
            for problem in options.check(slurm.version, "gres", {"AutoDetect": profile.gpus.detect}):
                mistakes.add(("profiles", profile.name, "gpus", "detect"), problem.message)


def _check_partition_qos(slurm: Slurm, given: Mapping[Any, Any], path: Path, mistakes: Mistakes) -> None:
    """A QOS that slurmdbd does not have is the end of slurmctld, which a test start without slurmdbd does not show."""
    known = list(dict.fromkeys(["normal", *slurm.qos]))
    for key, value in given.items():
        if str(key).lower() in PARTITION_QOS and value is not None:
            for name in filter(None, text_of(value).split(",")):
                if name.lower() not in known and name.lower() != "all":
                    mistakes.unknown((*path, key), "QOS", name, known)


def _check_ports(slurm: Slurm, mistakes: Mistakes) -> None:
    """Note a port at which slurmctld would look for slurmdbd in vain."""
    asked, served = (
        next(
            (text_of(value) for key, value in given.items() if str(key).lower() == name and value is not None),
            _DBD_PORT,
        )
        for given, name in ((slurm.options, "accountingstorageport"), (slurm.slurmdbd, "dbdport"))
    )
    if asked != served:
        text = f"slurmctld would connect to slurmdbd at port {asked}, and it listens at {served}: set both to the same"
        mistakes.add(("slurm",), f"{text} (slurm.options.AccountingStoragePort, slurm.slurmdbd.DbdPort).")


def _check_hash(slurm: Slurm, mistakes: Mistakes) -> None:
    """Note a HashPlugin of slurm.conf that slurmdbd.conf does not have, or the other way round."""
    if "HashPlugin" not in options.known(slurm.version, "slurm"):
        return  # noted as an option that this release does not have
    sections = {"options": slurm.options, "slurmdbd": slurm.slurmdbd}
    stated = {
        section: (key, text_of(value))
        for section, given in sections.items()
        for key, value in given.items()
        if str(key).lower() == "hashplugin" and value is not None
    }
    values = {section: stated.get(section, ("", _HASH_PLUGIN))[1] for section in sections}
    if values["options"].lower() == values["slurmdbd"].lower():
        return
    shown = {
        section: f"{value!r}" + ("" if section in stated else " (Slurm's default)") for section, value in values.items()
    }
    section = next(iter(stated))
    mistakes.add(
        ("slurm", section, stated[section][0]),
        f"HashPlugin is {shown['options']} in slurm.conf and {shown['slurmdbd']} in slurmdbd.conf. slurmdbd would refuse the "
        "messages of slurmctld. Allowed: one value in both. State the same HashPlugin in slurm.options and slurm.slurmdbd.",
    )


def _check_kind(version: str, kind: str, given: Mapping[Any, Any], path: Path, mistakes: Mistakes) -> None:
    wanted: dict[str, Any] = {}
    for key, value in given.items():
        source = _DERIVED.get(kind, {}).get(str(key).lower())
        if source:
            mistakes.add((*path, key), f"follows from {source}. Remove it here.")
        elif value is not None or options.canonical(kind, str(key)) is None:
            # A null takes a default away, which any option that ever was may be.
            wanted[key] = value
    for problem in options.check(version, kind, wanted):
        mistakes.add((*path, problem.key), problem.message)


def _written(section: str, mistakes: Mistakes) -> set[str]:
    """Return the names of a section, in small letters: one with capitals is a mistake there, not where it is named."""
    return {str(path[2]).lower() for path in mistakes.lines if len(path) == 3 and path[:2] == ("slurm", section)}


def _check_accounts(
    accounts: Mapping[str, dict[str, Any]], qos: Mapping[str, Any], database: bool, mistakes: Mistakes
) -> None:
    unread, unread_qos = _written("accounts", mistakes).difference(accounts), _written("qos", mistakes).difference(qos)
    known = ["normal", *(name for name in qos if name != "normal")]
    seen = ["root"]
    # Account -> the QOS its users may use; none: all that root's may, and those are not of this file.
    allowed: dict[str, list[str]] = {}
    for name, account in accounts.items():
        path: Path = ("slurm", "accounts", name)
        parent = account.get("parent", "root")
        if parent not in seen and parent not in unread:
            hint = "It is further down: parents are listed first." if parent in accounts else ""
            circle = _circle(name, accounts)
            if circle:
                # Once for all of its accounts: the first of them tells.
                if name == min(circle, key=list(accounts).index):
                    text = f"{' -> '.join([*circle, name])}: an account cannot be above itself. Give one of them another parent"
                    mistakes.add((*path, "parent"), f"{text}, such as root.")
            elif hint and parent != name:
                mistakes.add((*path, "parent"), f"account {parent!r} does not exist yet. {hint}")
            else:
                mistakes.unknown((*path, "parent"), "account", parent, seen)
        seen.append(name)
        own = [one for one in account.get("qos", []) if one]
        for number, one in enumerate(own):
            if one not in known and one not in unread_qos:
                mistakes.unknown((*path, "qos", number), "QOS", one, known)
        allowed[name] = own or allowed.get(parent, [])
        # An account inherits the QOS of root, which a new cluster gives `normal` alone.
        may, stated = allowed[name] or ["normal"], "default_qos" in account
        default = account.setdefault("default_qos", accounts.get(parent, {}).get("default_qos", "normal"))
        if default in may or default in unread_qos:
            continue
        if stated and default in known and not allowed[name]:
            text = (
                f"jobs of {name!r} may use `normal` alone: neither it nor an account above it has `qos`. "
                f"Write `qos: [normal, {default}]` beside it."
            )
            mistakes.add((*path, "default_qos"), text)
        elif stated:
            mistakes.unknown((*path, "default_qos"), "QOS", default, may)
        else:
            text = (
                f"jobs that name no QOS would have {default!r}, which is not among {', '.join(may)}. Set one of them."
            )
            mistakes.add((*path, "default_qos"), text)
    for section, objects in (("accounts", accounts), ("qos", qos)):
        if objects and not database:
            name = {"qos": "QOS"}.get(section, section)
            mistakes.add(
                ("slurm", section),
                f"{name} need a database. Name its host in services.database, or a slurmdbd of the site in "
                "slurm.options.AccountingStorageHost.",
            )


def _circle(name: str, accounts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the accounts from one to its parent and on, if they form a loop; else an empty list."""
    found = [name]
    while (parent := accounts.get(found[-1], {}).get("parent", "root")) not in found:
        if parent not in accounts:
            return []
        found.append(parent)
    return found if parent == name else []


def _check_qos(qos: Mapping[str, Mapping[str, Any]], mistakes: Mistakes) -> None:
    """Note what sacctmgr would refuse when everything else is deployed; a list is written with commas."""
    for name, given in qos.items():
        for key, message in qos_problems(given):
            mistakes.add(("slurm", "qos", name, key), message)


def _check_users(accounts: Mapping[str, Mapping[str, Any]], slurmdbd: Mapping[Any, Any], mistakes: Mistakes) -> None:
    parameters = next((value for key, value in slurmdbd.items() if str(key).lower() == "parameters"), None)
    words = text_of(parameters).lower().replace(" ", "").split(",")
    if "preservecaseuser" in words or "preservecaseall" in words:
        return
    for name, account in accounts.items():
        for number, user in enumerate(account.get("users", [])):
            if user and user != user.lower():
                mistakes.add(
                    ("slurm", "accounts", name, "users", number),
                    f"user {user!r} would become {user.lower()!r}: sacctmgr makes capital letters small. If that is the login "
                    "name, set Parameters: PreserveCaseUser in slurm.slurmdbd.",
                )
