# SPDX-License-Identifier: GPL-3.0-or-later
"""Content of a mirror for a cluster file: the sets of all GPU nodes, by system, with their origins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..cluster import Cluster
from ..common.cluster_secrets import ClusterSecrets
from ..common.role_interfaces import misspelt_variables
from ..common.secrets import MIRROR_KEY
from ..gpu_stack import apt_repositories, driver_versions, stack_table
from ..gpu_stack.parts import driver_part
from ..gpu_stack.parts.part_plan import GpuSoftware, software_of
from ..keys import repository_keys
from ..parts.part_files import rendered_template
from . import signing
from .mirror_model import File, MirrorError, MirrorOrigin, MirrorSystem, Need, PackageSet
from .signing import Signer

PREFIX = "mirror_"
VARIABLES = (
    "mirror_cache",
    "mirror_directory",
    "mirror_files",
    "mirror_list_only",
    "mirror_packages",
    "mirror_prune",
    "mirror_snapshot",
)
SECRET = MIRROR_KEY
# Where a distribution has what everything else depends on.
_BASE = {"debian": ("main",), "canonical": ("main", "universe")}
_KEYRINGS = {"debian": "debian-archive-keyring", "canonical": "ubuntu-keyring"}
# Roles of their own beside the driver's.
_PARTS = ("cuda", "toolkit", "dcgm")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]*\Z")
_PACKAGE = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]+)(=(?P<version>[0-9A-Za-z.+~:*-]+))?\Z")


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Return the unknown names of variables that begin with `mirror_`, with the nearest known one.

    >>> unknown_variables(["mirror_prune", "mirror_purne", "other"])
    ['mirror_purne is not a variable of playbooks/mirror.yml; did you mean mirror_prune?']
    """
    return misspelt_variables(names, PREFIX, VARIABLES, "playbooks/mirror.yml")


def systems_of(cluster: Cluster, more: Sequence[str] = ()) -> tuple[MirrorSystem, ...]:
    """Return the systems of the GPU nodes with the sets of their profiles; `more` are further packages for each system.

    MirrorError: a system that this does not mirror, and words of `more` that name no package.
    """
    mistakes = [f"mirror_packages: {text!r}; allowed: NAME, NAME=VERSION" for text in more if not _PACKAGE.match(text)]
    wanted = _wanted(cluster)
    mistakes += [
        f"profile {one.profile.name}: {one.file.os} installs rpm packages, which this playbook does not mirror; copy the owners' "
        "repositories with dnf reposync, which keeps their signatures, and say where they are with `urls`"
        for one in wanted
        if one.stack.family != "deb"
    ]
    if not wanted:
        mistakes.append(f"{cluster.path}: no profile has GPUs and a `gpu_stack`, so there is nothing to mirror")
    mistakes += repository_keys.judged(cluster, mirrors=False).mistakes if not mistakes else []
    if mistakes:
        raise MirrorError(mistakes)
    sets: dict[tuple[str, str], list[PackageSet]] = {}
    for one in wanted:
        try:
            sets.setdefault((one.file.os, one.stack.architecture), []).append(_set(one))
        except ValueError as error:
            mistakes.append(f"profile {one.profile.name}: {error}")
    if mistakes:
        raise MirrorError(mistakes)
    for (_unused, architecture), found in sets.items():
        # A kernel's package has its architecture in its name, and the others do not have it.
        fitting = [text for text in more if driver_versions.architecture(text.partition("=")[0]) in ("", architecture)]
        if fitting:
            found.append(replace(found[0], label="mirror_packages", needs=tuple(_need(text) for text in fitting)))
    debs = {name: families["deb"] for name, families in stack_table.default().architectures.items()}
    systems = [MirrorSystem(apt_repositories.mirrored(*which), tuple(of), debs[which[1]]) for which, of in sets.items()]
    return tuple(sorted(systems, key=lambda one: one.name))


def files_of(entries: Sequence[Mapping[str, Any]]) -> tuple[File, ...]:
    """Return the files of the variable; MirrorError: all that is wrong with it."""
    found: list[File] = []
    mistakes: list[str] = []
    for number, entry in enumerate(entries):
        url, sha256 = str(entry.get("url", "")), str(entry.get("sha256", "")).lower()
        name = str(entry.get("name") or url.rsplit("/", 1)[-1])
        where = f"mirror_files[{number}]"
        if unknown := sorted(set(entry) - {"url", "sha256", "name"}):
            mistakes.append(f"{where}: {', '.join(unknown)}; allowed: url, sha256, name")
        if not re.match(r"(https?|file)://\S+\Z", url):
            mistakes.append(f"{where}: url {url!r}; allowed: an address with http, https or file")
        if not _SHA256.match(sha256):
            mistakes.append(f"{where}: sha256 {sha256!r}; needed: the 64 hexadecimal digits that its owner publishes")
        if not _NAMED.match(name) or name in [one.name for one in found]:
            mistakes.append(f"{where}: name {name!r}; allowed: a unique file name, without /")
        found.append(File(name, url, sha256))
    if mistakes:
        raise MirrorError(mistakes)
    return tuple(found)


def directory_of(text: str, cluster: Cluster) -> Path:
    """Return where the mirror is; MirrorError: a place where Ansible would take it for inventory, or a relative one."""
    path = Path(text).expanduser() if text else Path("/srv/bedplate/mirror") / cluster.name
    inventory = Path(cluster.path).resolve().parent
    if not path.is_absolute():
        raise MirrorError([f"mirror_directory {text!r} depends on where a command is run; allowed: an absolute path"])
    if path.resolve().is_relative_to(inventory):
        raise MirrorError([f"mirror_directory {path} is inside the inventory {inventory}, and Ansible would read it as such; "
                           "allowed: a directory elsewhere"])  # fmt: skip
    return path


def cache_of(text: str, cluster: Cluster) -> Path:
    """Return where apt's lists are between runs."""
    state = os.environ.get("XDG_CACHE_HOME", "")
    usual = Path(state if Path(state).is_absolute() else "~/.cache") / "bedplate/mirror" / cluster.name
    return Path(text or usual).expanduser().absolute()


def signer_of(secrets: ClusterSecrets, cluster: str, make: bool) -> Signer | None:
    """Return the mirror's key; with `make` it is made on first use, else None where it does not exist.

    SecretError: it cannot be read or made. MirrorError: it is not a key.
    """
    if make:
        return signing.signer(secrets.keep(SECRET, lambda: signing.generate(cluster).encode()).decode())
    return signing.signer(secrets.text(SECRET)) if secrets.has(SECRET) else None


def _wanted(cluster: Cluster) -> list[GpuSoftware]:
    """Return what the nodes get, once for each profile, as if there were no mirror yet."""
    found: dict[str, GpuSoftware] = {}
    for node in cluster.nodes:
        if node.profile.name not in found:
            one = software_of(cluster, node.name)
            if one is not None:
                found[node.profile.name] = replace(one, file=replace(one.file, mirror=None, in_snapshot=False))
    return list(found.values())


def _set(wanted: GpuSoftware) -> PackageSet:
    needs = [Need(one.name, one.version, one.part) for one in wanted.stack.packages]
    build = driver_part.build_packages(wanted)
    needs += [Need(name, "*", "build") for name in build if name not in {need.name for need in needs}]
    pins = [wanted.pins("driver", never=stack_table.default().metapackages), *(wanted.pins(part) for part in _PARTS)]
    listed = [one for found in pins for one in found.get("apt_pins", ())]
    texts = [rendered_template("gpu_driver", "node_os/apt.pref.j2", {"item": one}) for one in listed]
    return PackageSet(f"profile {wanted.profile.name}", tuple(needs), _origins(wanted), "\n".join(texts))


def _origins(wanted: GpuSoftware) -> tuple[MirrorOrigin, ...]:
    """Return the distribution's own archive, for what everything depends on, and the repositories of the set."""
    system, urls, stated = wanted.file.os, dict(wanted.file.urls), dict(wanted.file.fingerprints)
    keys = {name: repository_keys.trusted(path, stated.get(name, ())) for name, path in wanted.file.keys}
    found = {}
    for row in stack_table.default().repositories:
        if system in row.systems and row.source in _BASE:
            url, key = urls.get(row.name, ""), keys.get(row.name, "")
            base = apt_repositories.located(row, system, url, key, wanted.stack.architecture)
            found[row.name] = _origin(replace(base, components=_BASE[row.source]), row.source)
    for one in wanted.repositories:
        components = (*(found[one.name].components if one.name in found else ()), *one.components)
        source = next(row.source for row in stack_table.default().repositories if row.name == one.name)
        found[one.name] = _origin(replace(one, components=components), source)
    return tuple(found.values())


def _origin(repository: apt_repositories.PackageRepository, source: str) -> MirrorOrigin:
    hint = f"The cluster file says it: `gpu_stack: {{keys: {{{repository.name}: FILE}}}}`"
    if source in _KEYRINGS:
        hint = f"Install it: apt-get install {_KEYRINGS[source]}"
    one = repository
    return MirrorOrigin(one.name, one.url, one.suites, one.components, one.key, hint)


def _need(text: str) -> Need:
    match = _PACKAGE.match(text)
    if match is None:
        raise AssertionError("the list of packages was checked")
    return Need(match["name"], match["version"] or "*", "site")
