# SPDX-License-Identifier: GPL-3.0-or-later
"""Find which packages from files, such as enroot's, are missing, and install them in one apt transaction."""

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
    """Packages that cannot be read or installed; the text is complete."""


def missing_packages(files: Sequence[tuple[Path, str]], run: Run = command.run) -> list[str]:
    """Verify all files (path, SHA-256), and return the packages, as name=version, that are not installed in this version."""
    for path, sha256 in files:
        verify(path, sha256)
    lacks = []
    for path, _unused in files:
        outcome = run(["dpkg-deb", "--show", "--showformat=${Package}\\t${Version}", str(path)], 60.0)
        if outcome.code != 0 or "\t" not in outcome.stdout:
            raise DebsError(f"{path} is not a Debian package: {outcome.text}")
        name, _unused, version = outcome.stdout.strip().partition("\t")
        said = run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", name], 60.0)
        if said.stdout.strip() != f"installed {version}":
            lacks.append(f"{name}={version}")
    return lacks


def install(paths: Sequence[Path], run: Run = command.run) -> None:
    """Install files together; apt installs their dependencies from the repositories."""
    outcome = run(["env", "DEBIAN_FRONTEND=noninteractive", *_APT, "install", *(str(path) for path in paths)], 900.0)
    if outcome.code != 0:
        # A stopped apt-get ends dpkg too, possibly in the middle of a package.
        remedy = ". Run dpkg --configure -a on this machine" if outcome.code is None else ""
        raise DebsError(f"apt-get install {' '.join(path.name for path in paths)}: {outcome.text}{remedy}")
