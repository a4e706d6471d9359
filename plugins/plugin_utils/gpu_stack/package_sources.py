# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the files that apt or dnf reads before packages of a part are installed: repositories, pins and locks.

Every part that installs pinned packages has the same rows under `sources`, one for each kind of file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import apt_repositories, dnf_repositories
from .apt_repositories import PackageRepository

_KINDS = ("apt_repositories", "apt_pins", "rpm_keys", "yum_repositories", "dnf_streams", "versionlocks")
Values = dict[str, list[Any]]


def none() -> Values:
    """Return the values where nothing is pinned and no repository is added."""
    return {kind: [] for kind in _KINDS}


def of_repositories(family: str, repositories: Iterable[PackageRepository]) -> Values:
    """Return the values of repositories of systems of a family, "deb" or "rpm"."""
    if family == "deb":
        return {"apt_repositories": [apt_repositories.source_values(one) for one in repositories]}
    listed = list(repositories)
    return {
        "rpm_keys": [key for one in listed for key in dnf_repositories.key_values(one)],
        "yum_repositories": [dnf_repositories.repository_values(one) for one in listed],
    }


def of_pins(
    family: str,
    about: str,
    pinned: Mapping[str, str],
    never: Iterable[str] = (),
    foreign: Mapping[str, Iterable[str]] | None = None,
) -> Values:
    """Return the values of pins, as `apt_repositories.pin_values` and `dnf_repositories.locks` take them."""
    if family == "deb":
        return {"apt_pins": [apt_repositories.pin_values(about, pinned, never, foreign)]}
    return {"versionlocks": dnf_repositories.locks(about, pinned, never)}
