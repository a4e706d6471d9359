# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which packages a task of bedplate.cluster.deploy installs, and fix their versions by apt holds or dnf locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...common import command
from ...common.command import Outcome
from ...common.text import matches_any
from ..files.blocks import without_block
from ..files.file_plan import DesiredFile
from . import dpkg, rpm
from .dpkg import Held, Holds


@dataclass(frozen=True)
class DeployedPackages:
    """Packages of one task, with the arguments of bedplate.cluster.deploy, which documents them."""

    manager: str
    manifest: str | None
    packages: Sequence[str]
    hold: Sequence[str]
    follow: Sequence[str]
    state_directory: Path
    check: bool
    replaces: Sequence[str] = ()
    run: Callable[[list[str]], Outcome] = command.run

    def other_versions(self, patterns: Sequence[str], version: str) -> dict[str, str]:
        """Return name -> version of the installed packages that match a pattern and have another version."""
        if self._on_dnf:
            return rpm.of_other_versions(patterns, version, self.run)
        return dpkg.of_other_versions(patterns, version, self.run)

    def has_apt(self) -> bool:
        """Return whether this machine has dpkg's records. Without dpkg no package seems to be installed."""
        return self.run(["dpkg-query", "--version"]).code == 0

    def installed(self, patterns: Sequence[str]) -> list[str]:
        """Return the names of the installed packages that match a pattern."""
        records = rpm if self._on_dnf else dpkg
        return sorted(records.installed_names(patterns, self.run))

    def to_install(self) -> dict[str, Any]:
        """Return the packages to install or change; may be empty. Raises RpmError if rpm's records cannot be read."""
        if not self.packages:
            return {}
        records = rpm if self._on_dnf else dpkg
        found = records.missing_packages(self.packages, self.run)
        others = records.mismatched(self.follow, self.run)
        replaced = self._replaced()
        if not (found.missing or found.passing or others or replaced):
            return {}
        to_install = [*found.missing, *others]
        unknown = [] if self._on_dnf else dpkg.unknown(to_install, self.run)
        # dnf finds repositories that it has not read yet, but trusts its cached lists for a while.
        outdated = not self._on_dnf and (bool(unknown) or dpkg.outdated())
        if self._on_dnf and not self.check and any("=" in one for one in to_install):
            rpm.expire_lists(self.run)
        return {
            "missing": found.missing,
            "passing": found.passing,
            "astray": others,
            "replaced": replaced,
            "outdated": outdated,
            "unknown": unknown,
        }

    def _replaced(self) -> list[str]:
        """Return the packages that this manifest holds from before and that the named ones replace: apt cannot remove a held one."""
        if not self.replaces or not self.manifest or self._on_dnf:
            return []
        before = Holds(self.state_directory, self.run).of(self.manifest)
        left = [name for name in before if name not in set(map(dpkg.name_of, self.packages))]
        if not left:
            return []  # most runs: nothing held is left over, so dpkg has no question to answer
        kept = {*dpkg.installed_names(self.follow, self.run)}
        there = {*dpkg.installed_names(self.replaces, self.run)}
        return [name for name in left if name in there - kept]

    def before_sources(self, sources: Sequence[DesiredFile]) -> list[str]:
        """Return the packages to install before the sources are written: the dnf plugin whose configuration gets lines."""
        locked = self._on_dnf and rpm.LOCKS in {entry.path for entry in sources}
        if locked and not self.check and not Path(rpm.LOCKS).exists():
            return [rpm.LOCKS_PLUGIN]
        return []

    def apply_holds(self) -> Held:
        """Hold the packages by apt, and release the packages that this manifest no longer names. Raises HoldsError if apt-mark failed."""
        if not self.manifest or self._on_dnf:
            return Held([], [])
        followers = dpkg.installed_names(self.follow, self.run)
        return Holds(self.state_directory, self.run).apply(self.manifest, self.hold, self.check, followers)

    def locks(self, followers: Sequence[str], coming: Sequence[str] = ()) -> list[DesiredFile] | None:
        """Return the lines that lock the followers' versions in dnf; None for apt. Raises RpmError if rpm's records cannot be read.

        In check mode `coming` are packages that a run would install before: their version is not known yet.
        Lines of another manifest are left out: a package that a later task installs would be a change of the second run.
        """
        if not self.manifest or not self._on_dnf:
            return None
        others = self._lines_of_others()
        lines = [line for line in rpm.followers_locks(followers, self.run) if line not in others]
        if self.check:
            lines += [f"# {name}, at the version that is installed then" for name in self._locked_of(coming, followers)]
        text = "".join(f"{line}\n" for line in ("# installed as dependencies, locked at the installed version", *lines))
        return [DesiredFile(rpm.LOCKS, state="block", content=text.encode())] if lines else []

    def _locked_of(self, coming: Sequence[str], followers: Sequence[str]) -> list[str]:
        """Return the packages of `coming` that are locked once they are installed."""
        patterns = [entry for entry in followers if "=" not in entry]
        return [name for name in map(dpkg.name_of, coming) if matches_any(name, patterns)]

    def _lines_of_others(self) -> set[str]:
        try:
            text = Path(rpm.LOCKS).read_bytes()
        except OSError:
            return set()
        return {
            line.strip()
            for line in without_block(text, f"{self.manifest}.follow").decode(errors="replace").splitlines()
        }

    @property
    def _on_dnf(self) -> bool:
        return self.manager == "dnf"
