# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of dnf's files: repositories and their keys, module streams, and locked versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import matches_any
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.rpm import NONE, lock

from .apt_repositories import PackageRepository


def key_values(repository: PackageRepository) -> list[dict[str, str]]:
    """Return name and text of the key of a repository; nothing where that is a file there already."""
    if repository.key.startswith("/"):
        return []
    return [{"name": repository.name, "text": f"{repository.key.strip()}\n"}]


def repository_values(repository: PackageRepository) -> dict[str, str]:
    """Return the values of node_os/yum.repo.j2. The list of packages is signed, and they are unless `unsigned_rpms`."""
    own = f"/etc/pki/rpm-gpg/RPM-GPG-KEY-bedplate-{repository.name}"
    return {
        "name": repository.name,
        "url": repository.url,
        # Without signatures of their own, what proves them is their digest in the signed list.
        "gpgcheck": "0" if repository.unsigned_rpms else "1",
        "key_file": repository.key if repository.key.startswith("/") else own,
    }


def stream_values(text: str) -> list[dict[str, str]]:
    """Return name and stream of a module, `name:stream`, for node_os/dnf.module.j2; nothing for "".

    >>> stream_values("nvidia-driver:1-open")
    [{'name': 'nvidia-driver', 'stream': '1-open'}]
    """
    name, _colon, stream = text.partition(":")
    return [{"name": name, "stream": stream}] if text else []


def locks(about: str, pinned: Mapping[str, str], never: Iterable[str] = ()) -> list[str]:
    """Return the text of a block of versionlock's list, or nothing: of the pinned packages no other version, of `never` none at all.

    `pinned` is name -> version or pattern. An exclusion counts for all that it matches, so one that matches a pinned name is left out.
    """
    lines = [lock(name, version) for name, version in sorted(pinned.items())]
    lines += [f"{NONE}{one}" for one in never if not any(matches_any(name, [one]) for name in pinned)]
    return ["".join(f"{line}\n" for line in (f"# {about}", *lines))] if lines else []
