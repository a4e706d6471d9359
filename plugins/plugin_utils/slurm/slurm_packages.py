# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's packages: all of one release, pinned and held, so that only a person changes their version.

`tables/packagings.json` has their names. Debian's `slurm` is another project's package, a monitor of networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import matches, without_epoch
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.rpm import LOCKS_PLUGIN

from ..cluster import Cluster
from ..cluster.schema.late_mistakes import MistakeCollector
from ..common.role_choices import defaults
from ..gpu_stack.apt_repositories import pin_values
from . import repository_options
from .tables.packagings import DEFAULT, PARTS, Packaging

PREFERENCES = "/etc/apt/preferences.d/bedplate-slurm"


def names(cluster: Cluster, part: str, given: Sequence[str]) -> list[str]:
    """Return the packages of a part: `given`, or for the role's default the packages of the cluster's packaging."""
    if list(given) != defaults("slurm")[f"slurm_{part}_packages"]:
        return list(given)
    source = cluster.slurm.packages
    return list(source.packages["client" if part == "login" and not cluster.has_sackd else part])


def hosts_to_compare(cluster: Cluster) -> list[str]:
    """Return nodes and clients whose packages and users are compared before anything changes.

    Nothing with Debian's packages and users: each machine is compared by its own part then, which saves a task on every node.
    """
    if cluster.slurm.packages.name == DEFAULT and not cluster.slurm.users:
        return []
    served = {*cluster.services.controllers, *cluster.services.database}
    every = [*(node.name for node in cluster.nodes), *cluster.services.login, *cluster.services.rest]
    return [name for name in dict.fromkeys(every) if name not in served]


def mistakes(cluster: Cluster, choices: Mapping[str, Any]) -> list[str]:
    """Return all mistakes in the role's variables about packages; `choices` has them by what is behind `slurm_`."""
    source = cluster.slurm.packages
    lists = [name for part in PARTS for name in names(cluster, part, choices[f"{part}_packages"])]
    return [
        *repository_options.mistakes(source.manager, choices["repository"]),
        *_version_mistakes(source, cluster.slurm.version, lists, choices["package_version"]),
    ]


def header_mistakes(cluster: Cluster) -> list[str]:
    """Return the mistake of a site's own table without headers, in a run that compiles pyxis."""
    if cluster.slurm.packages.packages["headers"]:
        return []
    wrong = MistakeCollector(cluster.path)
    text = "'headers' is missing, and pyxis (container_runtime_pyxis) compiles against Slurm's headers. Add their packages."
    wrong.add(("slurm", "packages"), text)
    return wrong.lines()


def headers(cluster: Cluster) -> list[str]:
    """Return the packages that compile a plugin of Slurm. ValueError: the site's own table has no headers."""
    source = cluster.slurm.packages
    if found := header_mistakes(cluster):
        raise ValueError(found[0])
    return [*source.system.compiler, *source.packages["headers"]]


def accounts(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the users that are made before the packages, as bedplate.cluster.deploy takes them.

    These are users whose numbers the cluster file states, and users that the packages do not make.
    """
    source, found = cluster.slurm.packages, []
    for name in ("slurm", "munge"):
        if user := cluster.slurm.users.get(name):
            found.append({"name": name, "uid": user.uid, "gid": user.gid, "place": user.place})
        elif name not in source.makes_users:
            place = f"{cluster.path}: slurm.users.{name} (not set)"
            found.append({"name": name, **source.users[name], "place": place})
    return found


def values(cluster: Cluster, names: Sequence[str], version: str = "", upgrade: bool = False) -> dict[str, Any]:
    """Return the values of a part that are about packages: `names` with their versions, pinned and held.

    `version` is that of all of Slurm's packages; without one it is the newest of the release at their first installation, and after it
    whatever is installed. With `upgrade` every installed package of Slurm changes to the release. ValueError: a version that is of another
    release than the cluster file's.
    """
    release, source = cluster.slurm.version, cluster.slurm.packages
    if wrong := _version_mistakes(source, release, names, version):
        raise ValueError("\n".join(wrong))
    version_or_any = version or f"{release}.*"
    packages = [f"{name}={version_or_any}" if source.is_slurms(name) else name for name in names]
    every, libraries = source.release, source.libraries
    # Without a version: plugins and headers that this part does not name stay at whatever is installed.
    pinned = version_or_any if upgrade else version
    common = {
        "manager": source.manager,
        "fixed": _fixed(source, release, upgrade),
        "conflicts": _conflicts(source, [one.partition("=")[0] for one in names]),
        "accounts": accounts(cluster),
    }
    if source.manager == "dnf":
        # Without versions: dnf's versionlock keeps whatever is installed, and deploy changes the locks with the packages.
        locks = {"packages": [*packages, LOCKS_PLUGIN] if packages else [], "hold": [], "follow": [*every, *libraries]}
        return {**common, "apt_pins": [], **locks}
    return {
        **common,
        "apt_pins": [pin_values("Slurm as in the cluster file.", dict.fromkeys([*every, *libraries], version_or_any))],
        "packages": packages,
        "hold": [name for name in (one.partition("=")[0] for one in packages) if source.is_slurms(name)],
        "follow": [*(f"{name}={pinned}" if pinned else name for name in every), *libraries],
    }


def repository(source: Packaging, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the repository in `slurm_repository`: for apt unchanged, for dnf a file of yum.repos.d.

    ValueError: options that dnf cannot have.
    """
    if source.manager == "apt" or not options:
        return {"repositories": [options] if options else [], "yum_repositories": []}
    if found := repository_options.mistakes("dnf", options):
        raise ValueError("\n".join(found))
    lines = {"enabled": True, "gpgcheck": True, **{key: value for key, value in options.items() if key != "name"}}
    text = "".join(f"{key}={_repository_value(value)}\n" for key, value in lines.items())
    return {"repositories": [], "yum_repositories": [f"[{options['name']}]\nname={options['name']}\n{text}"]}


def _repository_value(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _conflicts(source: Packaging, requested: Sequence[str]) -> dict[str, Any]:
    """Return the packages of other packagings, which the package manager would replace under running jobs."""
    daemon = source.packages["compute"][0]
    return {
        "packages": source.foreign(requested),
        "expected": f"packages of {source.name}, such as {daemon}",
        "advice": f"The cluster file has slurm.packages: {source.name}, and no run replaces the packages of an installed Slurm, which "
        "would stop its daemons and may end jobs. Set slurm.packages to the installed packaging, or change it by hand as "
        'docs/slurm.md says under "Another packaging".',
    }


def _fixed(source: Packaging, release: str, upgrade: bool) -> dict[str, Any]:
    """Return the release that installed packages must have. Only playbooks/upgrade_slurm.yml changes it, after its own checks."""
    return {
        "packages": [] if upgrade else list(source.release),
        "version": f"{release}.*",
        "advice": f"The cluster file has Slurm {release} (slurm.version), and no run changes the release of an installed Slurm: "
        "running jobs and the database depend on the order. Set slurm.version to the installed release, or run "
        "playbooks/upgrade_slurm.yml, as docs/upgrade-slurm.md says.",
    }


def _version_mistakes(source: Packaging, release: str, names: Sequence[str], version: str) -> list[str]:
    """Return a text for each stated version that is not of the cluster file's release."""
    stated = [("slurm_package_version", version)] if version else []
    stated += [
        (name, one)
        for name, _unused, one in (entry.partition("=") for entry in names)
        if one and source.is_slurms(name)
    ]
    return [
        f"{what}: {one!r} is not of Slurm {release}, the release of the cluster file (slurm.version). Allowed: such as {release}.5-4"
        for what, one in dict.fromkeys(stated)
        if not matches(without_epoch(one), f"{release}.*")
    ]
