# SPDX-License-Identifier: GPL-3.0-or-later
"""The packaging of Slurm and the numbers of its users: the sections `slurm.packages` and `slurm.users`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..gpu_stack import stack_table
from ..slurm.tables.packagings import DEFAULT, OWN, Packaging, managers, names, own, packaging
from .model import Cluster, Profile, Services, Slurm, SystemUser
from .schema.fields import Mistakes, Path
from .schema.late_mistakes import MistakeCollector
from .schema.slurm_sections import OWN as OWN_KEYS
from .schema.slurm_sections import PACKAGES

_PATH: Path = ("slurm", "packages")
_FAMILIES = {"deb": "apt", "rpm": "dnf"}
# A list of packages that only hosts of a service need -> the service.
_OF_SERVICE = {"database": "database", "login": "login", "rest": "rest"}
# pyxis is not for every cluster; without paths they are Debian's.
_OPTIONAL = ("headers", "state", "spool", "log")


def with_packaging(
    slurm: Slurm,
    data: Mapping[str, Any] | None,
    services: Services,
    profiles: Mapping[str, Profile],
    file: str,
    mistakes: Mistakes,
) -> Slurm:
    """Return Slurm's part of the file with its packaging and the numbers of its users."""
    if data is None:
        return slurm
    stated = data["packages"]
    packages = _packaging(stated, services, profiles, mistakes) if stated else slurm.packages
    return replace(slurm, packages=packages, users=_users(data["users"] or {}, file, mistakes))


def system_mistakes(cluster: Cluster) -> list[str]:
    """Return a line for each profile whose nodes have no packages of Slurm by this name, because `slurm.packages` is not stated.

    The file itself has no such mistake: a run that installs GPU software alone needs no Slurm.
    """
    source, wrong = cluster.slurm.packages, MistakeCollector(cluster.path)
    used = {node.profile.name: node.profile for node in cluster.nodes}
    for name, found in _of_nodes(used):
        if found != source.manager:
            stack = used[name].gpu_stack
            others = [one for one in names() if found in managers(one)]
            text = (
                f"{stack.os if stack else ''}: nodes of profile {name} have {found}, and slurm.packages is not set, which means "
                f"{source.name}'s packages for {source.manager}. They do not exist there. Allowed with {found}: {', '.join(others)}, "
                f"{OWN}. Set slurm.packages."
            )
            wrong.add(("profiles", name, "gpu_stack", "os"), text, ("gpu_stack", "os"))
    return wrong.lines()


def _packaging(
    data: Mapping[str, Any], services: Services, profiles: Mapping[str, Profile], mistakes: Mistakes
) -> Packaging:
    """Return the packaging of `slurm.packages`; Debian's where the section has mistakes."""
    table = {key: data[key] for key in OWN_KEYS if data[key] not in (None, [])}
    name = data["packaging"] or (OWN if table else DEFAULT)
    before = len(mistakes.found)
    manager = _manager(name, data["manager"], profiles)
    if name == OWN:
        _check_own(table, manager, services, mistakes)
    else:
        for key in table:
            text = f"is a key of a site's own table, and packaging is {name}. Remove it, or set packaging: own and all of its keys."
            mistakes.add((*_PATH, key), text)
        if manager not in managers(name):
            where = (*_PATH, "manager" if data["manager"] else "packaging")
            mistakes.add(where, f"{name} has no packages for {manager}. Allowed: {', '.join(managers(name))}.")
    if data["packaging"] or data["manager"] or table:
        _check_nodes(name, manager, profiles, mistakes)
    if len(mistakes.found) > before:
        return packaging()
    return own(manager, {**_absent(), **table}) if name == OWN else packaging(name, manager)


def _absent() -> dict[str, Any]:
    """Return a table of nothing."""
    return {key: [] if PACKAGES[key].type == "list" else None for key in OWN_KEYS}


def _manager(name: str, stated: str | None, profiles: Mapping[str, Profile]) -> str:
    """Return the package manager of the machines that run Slurm; "" if a site's own table does not state it."""
    if stated or name == OWN:
        return stated or ""
    known = managers(name)
    of_nodes = {manager for _profile, manager in _of_nodes(profiles)}
    return next((one for one in known if of_nodes == {one}), known[0])


def _of_nodes(profiles: Mapping[str, Profile]) -> Iterator[tuple[str, str]]:
    """Yield each profile that states a system, with its package manager."""
    systems = stack_table.default().systems
    for profile in profiles.values():
        system = systems.get(profile.gpu_stack.os) if profile.gpu_stack else None
        if system:
            yield profile.name, _FAMILIES[system.family]


def _check_nodes(name: str, manager: str, profiles: Mapping[str, Profile], mistakes: Mistakes) -> None:
    """Note the nodes whose system has another package manager."""
    by_manager: dict[str, str] = {}
    for profile, found in _of_nodes(profiles):
        by_manager.setdefault(found, profile)
    if manager and set(by_manager) - {manager}:
        nodes = " and ".join(
            f"nodes of profile {profile} have {found}" for found, profile in sorted(by_manager.items())
        )
        remedy = "Set slurm.packages, or gpu_stack.os of the profile."
        if len(by_manager) > 1:
            remedy = (
                "Write a second cluster file for the nodes of the other system, or set gpu_stack.os of the profile."
            )
        mistakes.add(
            _PATH,
            f"packages of {name} for {manager}, and {nodes} (gpu_stack.os). Allowed: one package manager on all machines of Slurm. "
            f"{remedy}",
        )


def _check_own(table: Mapping[str, Any], manager: str, services: Services, mistakes: Mistakes) -> None:
    """Note what a site's own table lacks."""
    needed = [
        key
        for key in OWN_KEYS
        if key not in _OPTIONAL and (key not in _OF_SERVICE or getattr(services, _OF_SERVICE[key]))
    ]
    missing = [*([] if manager else ["manager"]), *(key for key in needed if key not in table)]
    for key in missing:
        if (*_PATH, key) not in mistakes.lines:
            mistakes.add(_PATH, f"{key!r} is missing in the site's own table: {PACKAGES[key].description}")
        elif not any(one.where.startswith(mistakes.place((*_PATH, key))) for one in mistakes.found):
            mistakes.add((*_PATH, key), f"has no value: {PACKAGES[key].description}")
    # A pattern that is not allowed is None, and has its own mistake: no package can be compared with it.
    if "release" in missing or not all(table["release"]):
        return
    found = own(manager, {**_absent(), **table})
    for part in (*_OF_SERVICE, "controller", "compute", "headers"):
        named = [one.partition("=")[0] for one in table.get(part, ()) if one]
        if named and not any(map(found.is_slurms, named)):
            text = f"{', '.join(named)}: no package matches slurm.packages.release. Add Slurm's package here, or its pattern there."
            mistakes.add((*_PATH, part), text)


def _users(data: Mapping[str, Any], file: str, mistakes: Mistakes) -> dict[str, SystemUser]:
    """Return the users whose numbers the file states, name -> user."""
    found: dict[str, SystemUser] = {}
    for name, numbers in data.items():
        if not numbers or not numbers["uid"]:
            continue
        path: Path = ("slurm", "users", name)
        line = mistakes.lines.get(path, 1)
        place = f"{file}:{line}: {mistakes.place(path)}" if file else mistakes.place(path)
        found[name] = SystemUser(numbers["uid"], numbers["gid"] or numbers["uid"], place)
    for key in ("uid", "gid"):
        owners: dict[int, str] = {}
        for name, user in found.items():
            number = getattr(user, key)
            if number in owners:
                path = ("slurm", "users", name, key)
                mistakes.add(path, f"{number} is the {key} of {owners[number]}, too. Allowed: another number.")
            owners[number] = name
    return found
