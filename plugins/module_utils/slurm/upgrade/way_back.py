# SPDX-License-Identifier: GPL-3.0-or-later
"""Go back on one host: old packages, files and holds, with the daemons stopped. The data is restored after it, and then they start."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from ...common.files import atomic_write
from ...primitives.packages import fetched
from ..saved import kept_files
from ..saved.upgrade_folder import FILES, INSTALLING, PACKAGES, RESTORING_FILES, SERVED, UpgradeFolder

Run = Callable[..., Outcome]
_LIST = "packages.json"
_HOLDS = "var/lib/bedplate/holds.json"


class BackError(Exception):
    """There is no way back; the text is complete."""


@dataclass(frozen=True)
class WayBack:
    """Keep and restore the old release on a host."""

    folder: UpgradeFolder
    run: Run = command.run
    root: Path = Path("/")

    def prepare(self, packages: Mapping[str, str]) -> bool:
        """Keep the old packages, name -> version; return whether that changed anything. Raises FetchError.

        Once packages change, the list is complete: a later call sees only what is still old.
        """
        if INSTALLING in self.folder.marks():
            return False
        made = self.folder.make()
        directory = self.folder.path / PACKAGES
        directory.mkdir(mode=0o700, exist_ok=True)
        added = fetched.keep(packages, directory, self.run)
        text = json.dumps(dict(sorted(packages.items())), indent=1) + "\n"
        listed = self.folder.path / _LIST
        if not packages or (listed.is_file() and listed.read_text(encoding="utf-8") == text):
            return made or added
        atomic_write(listed, text, mode=0o600)
        return True

    def keep_files(self) -> bool:
        """Keep configuration and records once, before the first file changes; return whether it was done now."""
        if (self.folder.path / FILES).exists():
            return False
        kept_files.keep(self.folder.path / FILES, self.root)
        return True

    def renew_files(self) -> bool:
        """Keep the files of now in place of an earlier call's; return whether there were any.

        For a host without a package of the new release: the old one may have run since, with other nodes and jobs on them.
        """
        if not (self.folder.path / FILES).exists() or RESTORING_FILES in self.folder.marks():
            return False
        kept_files.keep(self.folder.path / FILES, self.root)
        return True

    def is_needed(self) -> bool:
        """Return whether packages may have changed. Raises BackError once the new release has served."""
        marks = self.folder.marks()
        if SERVED in marks:
            raise BackError(
                f"{self.folder.path}: the new release has served on this host, so there is no way back: "
                "jobs since then would be lost"
            )
        return INSTALLING in marks

    def packages(self) -> dict[str, str]:
        """Return the kept packages, name -> version. Raises BackError without a list."""
        try:
            found: dict[str, str] = json.loads((self.folder.path / _LIST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BackError(f"{self.folder.path / _LIST}: {error}. The old packages are unknown") from error
        return found

    def go(self) -> None:
        """Restore files, then packages, then holds. Raises BackError, FetchError, KeptError."""
        packages = self.packages()
        held = set(self.run(["apt-mark", "showhold"], 120.0).stdout.split())
        self.folder.mark(RESTORING_FILES)
        kept_files.restore(self.folder.path / FILES, self.root)
        self.folder.forget(RESTORING_FILES)
        # apt releases the hold of a package that it changes.
        held |= self._recorded_holds()
        fetched.install_kept(packages, self.folder.path / PACKAGES, self.run)
        if again := sorted(held & set(packages)):
            self.run(["apt-mark", "hold", *again], 120.0)

    def _recorded_holds(self) -> set[str]:
        """Return the packages that bedplate holds, by its own record."""
        try:
            found = json.loads((self.root / _HOLDS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return set()
        return {str(name) for names in found.values() for name in names}
