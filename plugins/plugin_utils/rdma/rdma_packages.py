# SPDX-License-Identifier: GPL-3.0-or-later
"""Source of a node's RDMA software: the distribution, or DOCA-OFED in one version from a repository of the site's choice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..cluster import Profile
from ..cluster.gpu_stack_checks import armored
from ..gpu_stack import package_sources
from ..gpu_stack.apt_repositories import PackageRepository

_NEEDED = ("url", "key", "version")
_ABOUT = "DOCA-OFED: with another version every kernel module must be built again, the GPU driver's too."


@cache
def package_table() -> dict[str, Any]:
    """Return the table of systems, and of each family's packages."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("rdma_packages.json").read_text(encoding="utf-8"))
    return found


def system_of(choices: Mapping[str, Any], profile: Profile) -> str:
    """Return the system of a profile's nodes; "" if it is unknown."""
    return choices["os"] or (profile.gpu_stack.os if profile.gpu_stack else "")


def mistakes(choices: Mapping[str, Any], keys: bool = True) -> Iterator[str]:
    """Yield the mistakes of the variables for the software."""
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
    """Return the values of the part that are about packages, and `expected`: name -> version, "" is any."""
    systems, families = package_table()["systems"], package_table()["families"]
    # Without a word on it, as every role that knows Debian alone.
    family = systems.get(system_of(choices, profile), "deb")
    row = families[family]
    found: dict[str, Any] = {
        "manager": row["manager"],
        "packages": [],
        "hold": [],
        "expected": {},
        **package_sources.none(),
    }
    if choices["stack"] == "inbox":
        found["packages"] = list(row["inbox"])
        found["expected"] = dict.fromkeys(row["inbox"], "")
    elif choices["stack"] == "doca":
        version = choices["doca_version"]
        repository = PackageRepository("doca", choices["doca_url"], ("./",), (), armored(choices["doca_key"]))
        found["expected"] = dict.fromkeys(row["doca"], version)
        found["packages"] = [f"{name}={version}" for name in row["doca"]]
        found.update(package_sources.of_repositories(family, [repository]))
        found.update(package_sources.of_pins(family, _ABOUT, found["expected"]))
        # dnf's locks are among the sources.
        found["hold"] = list(row["doca"]) if family == "deb" else []
    return found
