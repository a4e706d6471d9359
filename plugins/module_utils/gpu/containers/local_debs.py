# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that come as files, such as enroot's: which of them are installed, and one transaction of apt for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from .archives import verify

Run = Callable[[list[str], float], Outcome]
_APT = ["apt-get", "--yes", "--quiet", "--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages",
        "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"]  # fmt: skip


class DebsError(Exception):
    """Packages that could not be read or installed; the text is whole."""


def missing_packages(files: Sequence[tuple[Path, str]], run: Run = command.run) -> list[str]:
    """Verify all files (path, SHA-256), and return the packages, as name=version, that are not installed as they are there."""
    for path, sha256 in files:
        verify(path, sha256)
    lacks = []
    for path, _unused in files:
        outcome = run(["dpkg-deb", "--show", "--showformat=${Package}\\t${Version}", str(path)], 60.0)
        if outcome.code != 0 or "\t" not in outcome.stdout:
            raise DebsError(f"{path} is no Debian package: {outcome.text}")
        name, _unused, version = outcome.stdout.strip().partition("\t")
        said = run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", name], 60.0)
        if said.stdout.strip() != f"installed {version}":
            lacks.append(f"{name}={version}")
    return lacks


def install(paths: Sequence[Path], run: Run = command.run) -> None:
    """Install files together; what they depend on comes from the repositories."""
    outcome = run(["env", "DEBIAN_FRONTEND=noninteractive", *_APT, "install", *(str(path) for path in paths)], 900.0)
    if outcome.code != 0:
        # What is stopped ends dpkg too, maybe in the middle of a package.
        remedy = ". Run dpkg --configure -a there" if outcome.code is None else ""
        raise DebsError(f"apt-get install {' '.join(path.name for path in paths)}: {outcome.text}{remedy}")
