# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the secrets that a run needs, before any node is touched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import nearest

from ..cluster import Cluster
from ..common.cluster_secrets import DIRECTORY, MAKE, REPLACE, ClusterSecrets
from ..common.given_secrets import VARIABLE
from ..common.secrets import MIRROR_KEY
from ..parts.part_files import part_file, parts_of
from .role_mistakes import ROLES

RUN_WIDE = (VARIABLE, DIRECTORY, MAKE, REPLACE, "gpu_resolve")
"""Variables that one host of a run lends to all: with a value for a group, the limit of a run would decide which one holds."""
VARIABLES = (VARIABLE, DIRECTORY, MAKE, REPLACE)
"""Variables that hold for all hosts of a run: two values of them would give a cluster two keys."""
# So near to a known name that it must be a slip: munge_keys, but not api_key.
_SLIP = 0.85


def misplaced(name: str) -> str:
    """Return the mistake in a variable of a group or a host that must hold for all of them."""
    return f"{name}: holds for all machines of the cluster. Set it in group_vars/all, or with -e"


def of_role(role: str) -> list[str]:
    """Return the names of the secrets that parts of a role write as whole files."""
    found = []
    for part in parts_of(role):
        found += list(_names(part_file(role, part).get("files", ())))
    return list(dict.fromkeys(found))


def mistakes(
    secrets: ClusterSecrets,
    cluster: Cluster | None,
    roles: Collection[str],
    extra_files: Mapping[str, Iterable[Any]] | None = None,
) -> list[str]:
    """Return the mistakes of the given secrets, and of the secrets that these roles need.

    `cluster` is None without a cluster file and without Slurm. `extra_files`: role -> entries of its `<role>_extra_files`.
    """
    own = {role: list(_names(entries)) for role, entries in (extra_files or {}).items()}
    foreign = cluster.package_access.secrets if cluster and cluster.package_access else ()
    found = secrets.given.mistakes()
    if found and not isinstance(secrets.given.variable, Mapping):
        return found
    of_roles = [name for role in ROLES for name in (*of_role(role), *own.get(role, ()))]
    known = [*dict.fromkeys([*of_roles, *foreign, MIRROR_KEY])]
    given = secrets.given.names()
    for name in given:
        slip = nearest(name, known, cutoff=_SLIP) if name not in known else ""
        if slip:
            found.append(
                f"{VARIABLE}.{name}: nothing uses this secret. Did you mean {slip}? Secrets: {', '.join(known)}"
            )
    needed = [name for role in roles for name in (*of_role(role), *own.get(role, ()))]
    found += [text for name in dict.fromkeys(needed) if name not in given and (text := secrets.mistake(name))]
    if "node_os" in roles:
        found += [text for name in foreign if name not in given and (text := secrets.mistake(name, foreign=True))]
        found += [text for name in foreign if (text := _blank(secrets, name))]
    return list(dict.fromkeys(found))


def _names(entries: Iterable[Any]) -> Iterator[str]:
    """Yield the names of the secrets in entries of bedplate.cluster.files."""
    for entry in entries:
        if isinstance(entry, Mapping) and isinstance(entry.get("secret"), str):
            yield entry["secret"]


def _blank(secrets: ClusterSecrets, name: str) -> str:
    """Return the mistake in a password of a package server: apt and dnf read it up to the first blank."""
    if secrets.mistake(name, foreign=True):
        return ""
    text = secrets.existing_text(name)
    if text and not any(character.isspace() for character in text):
        return ""
    return f"secret {name}: apt reads a password up to the first blank; allowed: one line without blanks"
