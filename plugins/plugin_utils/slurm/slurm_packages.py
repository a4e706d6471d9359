# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's packages: all of one release, pinned and held, so that only a person changes their version.

`tables/packagings.json` has their names. Debian's `slurm` is another project's package, a monitor of networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import matches, without_epoch

from ..cluster import Cluster
from ..gpu_stack.apt_repositories import pin_values
from .tables.packagings import Packaging, packaging

PREFERENCES = "/etc/apt/preferences.d/bedplate-slurm"


def values(cluster: Cluster, names: Sequence[str], version: str = "") -> dict[str, Any]:
    """Return the values of a part that are about packages: `names` with their versions, pinned and held.

    `version` is that of all of Slurm's packages; without one it is the newest of the release at their first installation, and after it
    whatever is installed. ValueError: a version that is of another release than the cluster file's.
    """
    release, source = cluster.slurm.version, packaging()
    _check(source, release, names, version)
    wanted = version or f"{release}.*"
    packages = [f"{name}={wanted}" if source.is_slurms(name) else name for name in names]
    every, libraries = source.release, source.libraries
    pinned = dict.fromkeys([*every, *libraries], wanted)
    return {
        "apt_pins": [pin_values("Slurm as in the cluster file.", pinned)],
        "packages": packages,
        "hold": [name for name in (one.partition("=")[0] for one in packages) if source.is_slurms(name)],
        "follow": [*(f"{name}={version}" if version else name for name in every), *libraries],
        "fixed": _fixed(source, release),
    }


def _fixed(source: Packaging, release: str) -> dict[str, Any]:
    """Return the release that installed packages must have."""
    return {
        "packages": list(source.release),
        "version": f"{release}.*",
        "advice": f"The cluster file has Slurm {release} (slurm.version), and no run changes the release of an installed Slurm: "
        "running jobs and the database depend on the order. Set slurm.version to the installed release, or upgrade by hand as "
        'docs/slurm.md says under "Another release of Slurm".',
    }


def _check(source: Packaging, release: str, names: Sequence[str], version: str) -> None:
    stated = [("slurm_package_version", version)] if version else []
    stated += [
        (name, one)
        for name, _unused, one in (entry.partition("=") for entry in names)
        if one and source.is_slurms(name)
    ]
    wrong = [
        f"{what}: {one!r} is not of Slurm {release}, the release of the cluster file (slurm.version). Allowed: such as {release}.5-4"
        for what, one in stated
        if not matches(without_epoch(one), f"{release}.*")
    ]
    if wrong:
        raise ValueError("\n".join(wrong))
