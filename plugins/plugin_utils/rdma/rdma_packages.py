# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose RDMA software a node gets: the distribution's own, or DOCA-OFED in one version from a repository of the site's choice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..cluster import Profile
from ..cluster.gpu_stack_checks import armored
from ..gpu_stack import apt_repositories, dnf_repositories
from ..gpu_stack.apt_repositories import PackageRepository

_NEEDED = ("url", "key", "version")


@cache
def package_table() -> dict[str, Any]:
    """Return the table of systems, and of each family's packages."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("rdma_packages.json").read_text(encoding="utf-8"))
    return found


def system_of(choices: Mapping[str, Any], profile: Profile) -> str:
    """Return the system of a profile's nodes; "" where nobody says it."""
    return choices["os"] or (profile.gpu_stack.os if profile.gpu_stack else "")


def mistakes(choices: Mapping[str, Any], keys: bool = True) -> Iterator[str]:
    """Yield what is wrong with the variables that say the software."""
    systems = package_table()["systems"]
    if choices["os"] and choices["os"] not in systems:
        yield f"rdma_os: {choices['os']!r}; allowed: {', '.join(systems)}"
    if choices["stack"] != "doca":
        return
    for key in _NEEDED:
        if not choices[f"doca_{key}"]:
            what = {
                "url": "the address of the repository for this release of DOCA, system and architecture",
                "key": "the path of the armored key that signs it",
                "version": "the exact version of doca-ofed there",
            }[key]
            yield f"rdma_doca_{key}: is empty, and rdma_stack is doca; allowed: {what}"
    if any(sign in choices["doca_version"] for sign in "*? ="):
        yield f"rdma_doca_version: {choices['doca_version']!r}; allowed: one exact version, as `apt-cache policy doca-ofed` prints it"
    if choices["doca_key"] and keys:
        try:
            armored(choices["doca_key"])
        except ValueError as error:
            yield f"rdma_doca_key: {error}"


def packages(choices: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Return manager, sources, packages and holds as bedplate.cluster.deploy takes them, and `expected`: name -> version, "" is any."""
    systems, families = package_table()["systems"], package_table()["families"]
    # Without a word on it, as every role that knows Debian alone.
    family = systems.get(system_of(choices, profile), "deb")
    row = families[family]
    found: dict[str, Any] = {"manager": row["manager"], "sources": [], "packages": [], "hold": [], "expected": {}}
    if choices["stack"] == "inbox":
        found["packages"] = list(row["inbox"])
        found["expected"] = dict.fromkeys(row["inbox"], "")
    elif choices["stack"] == "doca":
        version = choices["doca_version"]
        repository = PackageRepository("doca", choices["doca_url"], ("./",), (), armored(choices["doca_key"]))
        found["expected"] = dict.fromkeys(row["doca"], version)
        found["packages"] = [f"{name}={version}" for name in row["doca"]]
        found["sources"] = _sources(family, repository, found["expected"])
        # dnf's locks are among the sources.
        found["hold"] = list(row["doca"]) if family == "deb" else []
    return found


def _sources(family: str, repository: PackageRepository, pinned: Mapping[str, str]) -> list[dict[str, str]]:
    about = "DOCA-OFED: another version needs every kernel module built anew, the GPU driver's too."
    if family == "rpm":
        return [*dnf_repositories.origin(repository), *dnf_repositories.locks(about, pinned)]
    text = apt_repositories.preferences(about, pinned)
    return [
        {"path": repository.path, "content": apt_repositories.deb822(repository)},
        {"path": "/etc/apt/preferences.d/bedplate-rdma.pref", "content": text},
    ]
