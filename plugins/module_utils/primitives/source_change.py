# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the sources of a part as one change: sources of others that are in the way, ours, and what apt or dnf says about them.

If the package manager refuses the new sources, for one because another key signed them, the old state is restored: the next command of
anybody would fail otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .files import manifest as node_manifest
from .files.file_plan import DesiredFile
from .files.file_writer import Keep
from .files.manifest import NodeFilesError
from .journal import Journal, kept_of
from .packages.dnf_check import DnfCheck
from .packages.foreign_sources import VENDOR, ForeignSources, SourceChanges


@dataclass(frozen=True)
class SourceChange:
    """Change of the sources of one manifest. `write` writes files and returns the result of a module, as `file_writer.apply`."""

    manifest: str
    directory: Path
    foreign: ForeignSources
    diff: bool
    write: Callable[[list[DesiredFile], Keep], dict[str, Any]]
    dnf: DnfCheck = field(default_factory=DnfCheck)

    def apply(self, wanted: list[DesiredFile], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result. `options`: `policy`, `vendor` and `alone`, as bedplate.cluster.deploy documents `foreign_sources`.

        Raises NodeFilesError: then the sources are as before.
        """
        found = self.foreign.found(wanted, set(node_manifest.load(self.directory)), alone=bool(options.get("alone")))
        journal = Journal(self.directory, f"{self.manifest}.sources")
        try:
            aside = self.foreign.taken_over(
                found, options.get("policy") or VENDOR, options.get("vendor") or (), self.diff
            )
            result = self.write(wanted, lambda plan: journal.keep(kept_of(plan), {}))
            self._judge(wanted, [*result["changed_files"], *result["removed"]])
        except NodeFilesError as error:
            raise NodeFilesError(self._restored(journal, error.problems, wanted)) from error
        if not self.foreign.check:
            journal.clear()
        return self.restore(result["removed"]).added_to(aside.added_to(result))

    def restore(self, removed: Sequence[str] = ()) -> SourceChanges:
        """Restore the sources that were set aside for removed files of ours; `removed`: files that check mode would remove."""
        return self.foreign.put_back(set(node_manifest.load(self.directory)) - set(removed), self.diff)

    def _judge(self, wanted: Sequence[DesiredFile], changed: Sequence[str]) -> None:
        if self.foreign.check:
            return
        if self.foreign.has_apt_sources(changed) and (why := self.foreign.refused(wanted)):
            raise NodeFilesError([f"apt refuses these sources: {why}"])
        if self.dnf.has_sources(changed, wanted):
            if why := self.dnf.refused(wanted):
                raise NodeFilesError([f"dnf refuses these repositories: {why}"])
            self.dnf.forget_keys(wanted)

    def _restored(self, journal: Journal, problems: Sequence[str], wanted: Sequence[DesiredFile]) -> list[str]:
        """Restore the sources from before; return the problems, and the outcome."""
        if self.foreign.check:
            return list(problems)
        failures: list[str] = []
        changed = list(journal.paths)
        if not journal.is_empty:
            failures = journal.restore()
            if not failures:
                journal.clear()
        try:
            self.restore()
        except NodeFilesError as error:
            failures += error.problems
        if failures:
            return [*problems, "The sources from before could NOT be restored:", *failures]
        if not changed:
            return list(problems)
        is_apt = self.foreign.has_apt_sources(changed)
        if is_apt:
            self.foreign.refused(wanted)  # reads the lists of the restored sources
        manager = "apt" if is_apt else "dnf"
        return [*problems, f"Restored: {', '.join(sorted(changed))} as before, so {manager} reads its sources."]
