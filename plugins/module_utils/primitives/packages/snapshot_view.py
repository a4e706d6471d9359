# SPDX-License-Identifier: GPL-3.0-or-later
"""apt and dnf as they are with a snapshot's repositories alone, also before the sources of this machine name them.

A preview so lists what a promoted snapshot would change, and writes nothing outside of one directory. Holds, locks and pins of the machine
are in force.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...common.command import Outcome
from ...common.files import atomic_write
from . import upgrades

DIRECTORY = Path("/var/lib/bedplate/snapshot")
_FOLDERS = ("sources.d", "repos.d")

Run = Callable[[Sequence[str]], Outcome]


class SnapshotView:
    """A directory with the sources, keys and lists of one snapshot."""

    def __init__(self, run: Run = upgrades.patient, directory: Path = DIRECTORY) -> None:
        """`run` runs a command of apt or dnf."""
        self._run = run
        self.directory = directory

    def write(self, files: Mapping[str, str]) -> None:
        """Write the files, by their path below the directory, and remove earlier ones. OSError: that failed."""
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        # apt's own user reads them.
        self.directory.chmod(0o755)
        for folder in _FOLDERS:
            shutil.rmtree(self.directory / folder, ignore_errors=True)
            (self.directory / folder).mkdir(mode=0o755)
        (self.directory / "lists/partial").mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            atomic_write(self.directory / name, text.encode(), mode=0o644)

    def run(self, argv: Sequence[str]) -> Outcome:
        """Run a command of apt or dnf with these sources alone."""
        return self._run((argv[0], *self._options(argv[0]), *argv[1:]))

    def _options(self, program: str) -> list[str]:
        at = self.directory
        if program == "dnf":
            return [f"--setopt=reposdir={at}/repos.d", f"--setopt=cachedir={at}/cache"]
        settings = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": f"{at}/sources.d",
            "Dir::Etc::preferences": f"{at}/preferences",
            "Dir::State::lists": f"{at}/lists",
            # The cache of this machine's own sources stays as it is.
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "APT::Get::allow-downgrades": "true",
            # Each snapshot calls itself by its own name.
            "Acquire::AllowReleaseInfoChange": "true",
        }
        return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
