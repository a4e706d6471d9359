# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which dnf knows where the GPU packages come from, of which stream they are and which versions it is to take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import matches_any
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.rpm import LOCKS, NONE, lock

from .apt_repositories import PackageRepository

# A version that the site has just mirrored is to be found; dnf would believe for two days that there is none.
_EXPIRES = "1h"
_MODULES = "/etc/dnf/modules.d"


def origin(repository: PackageRepository) -> list[dict[str, str]]:
    """Return a repository as entries of bedplate.cluster.files: its key, unless that is a file there already, and what dnf reads."""
    files = []
    key = repository.key
    if not key.startswith("/"):
        path = f"/etc/pki/rpm-gpg/RPM-GPG-KEY-bedplate-{repository.name}"
        files.append({"path": path, "content": f"{key.strip()}\n"})
        key = path
    path = f"/etc/yum.repos.d/bedplate-{repository.name}.repo"
    return [*files, {"path": path, "content": repo(repository.name, repository.url, key, repository.unsigned_rpms)}]


def repo(name: str, url: str, key: str, unsigned_rpms: bool = False) -> str:
    """Return the text of a .repo file; its list, and its packages unless they are unsigned, are signed by the key at this path."""
    settings = {
        "name": f"{name}, written by bedplate",
        "baseurl": url,
        "enabled": "1",
        # Without signatures of their own, what proves them is their digest in the signed list.
        "gpgcheck": "0" if unsigned_rpms else "1",
        "repo_gpgcheck": "1",
        "gpgkey": f"file://{key}",
        # Nothing of a driver is to be decided without its repository.
        "skip_if_unavailable": "0",
        "metadata_expire": _EXPIRES,
    }
    return f"[bedplate-{name}]\n" + "".join(f"{key}={value}\n" for key, value in settings.items())


def stream(text: str) -> list[dict[str, str]]:
    """Return the file that enables a module's stream, `name:stream`, in the place of another one; none for "".

    >>> stream("nvidia-driver:1-open")[0]["path"]
    '/etc/dnf/modules.d/nvidia-driver.module'
    """
    if not text:
        return []
    name, _colon, kind = text.partition(":")
    content = f"[{name}]\nname={name}\nstream={kind}\nprofiles=\nstate=enabled\n"
    return [{"path": f"{_MODULES}/{name}.module", "content": content}]


def locks(about: str, pinned: Mapping[str, str], never: Iterable[str] = ()) -> list[dict[str, str]]:
    """Return a block of versionlock's list: of the pinned packages no other version, of those that match `never` none at all.

    `pinned` is name -> version or pattern. An exclusion counts for all that it matches, so one that matches a pinned name is left out.
    """
    lines = [lock(name, version) for name, version in sorted(pinned.items())]
    lines += [f"{NONE}{one}" for one in never if not any(matches_any(name, [one]) for name in pinned)]
    if not lines:
        return []
    content = "".join(f"{line}\n" for line in (f"# {about}", *lines))
    return [{"path": LOCKS, "state": "block", "content": content}]
