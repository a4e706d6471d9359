# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a host before an upgrade: installed packages, what apt would change, space, required plugins, and marks of an earlier call.

Nothing is changed: apt only simulates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...common import command
from ...common.command import Outcome
from ...common.text import matches_any
from ...common.versions import matches, without_epoch
from ...primitives.packages import dpkg
from ...primitives.packages.fetched import ARCHIVES, Fetch, FetchError, entries, not_to_be_had
from ..saved.database_dump import Database, DumpError
from ..saved.state_archive import ArchiveError, StateArchive
from ..saved.upgrade_folder import UpgradeFolder

_QUICK, _SLOW = 120.0, 600.0  # seconds
_PLUGSTACKS = ("/etc/slurm/plugstack.conf", "/etc/slurm/plugstack.conf.d", "/run/slurm/conf/plugstack.conf")
Run = Callable[..., Outcome]


@dataclass(frozen=True)
class Requested:
    """Hold what the control node requests for a host.

    `packages`: entries of apt. `release`: patterns of packages with Slurm's version. `version`: such as 26.05.*. `preferences`: name and
    text of the file of pins. `daemons`: units of the database and of controllers on this host. `database` and `state`: name of the
    database and path of StateSaveLocation, "" on hosts without them. `is_core`: whether the host goes back after a failure.
    """

    packages: Sequence[str]
    release: Sequence[str]
    version: str
    preferences: tuple[str, str]
    daemons: Sequence[str] = ()
    database: str = ""
    state: str = ""
    is_core: bool = False


@dataclass
class HostLook:
    """Look at one host; `problems` are complete texts. `refresh`: whether apt may read its lists again if they lack the release."""

    requested: Requested
    base: Path
    refresh: bool = False
    run: Run = command.run
    problems: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Return what was found."""
        wanted = self.requested
        installed = dpkg.installed_versions(wanted.release, self._quick)
        others = {name: one for name, one in installed.items() if not matches(without_epoch(one), wanted.version)}
        changes = self._changes(installed) if others else None
        old = {name: before for name, (before, _new) in (changes.installed if changes else {}).items() if before}
        own = {name: one for name, one in old.items() if matches_any(name, wanted.release)}
        return {
            "installed": installed,
            "changes": {name: list(pair) for name, pair in changes.installed.items()} if changes else {},
            "removed": [name for name in (changes.removed if changes else ()) if not matches_any(name, wanted.release)],
            "download": changes.size if changes else 0,
            "download_free": _free(ARCHIVES),
            "old": own if wanted.is_core else {},
            "old_missing": not_to_be_had(own, self.run) if wanted.is_core and changes else [],
            "plugins": self._required_plugins() if others else [],
            "daemons": {unit: self._is_active(unit) for unit in wanted.daemons},
            "folders": self._folders(),
            **self._space(bool(others)),
            "problems": self.problems,
        }

    def _changes(self, installed: Mapping[str, str]) -> Any:
        wanted = self.requested
        names = [dpkg.name_of(one) for one in wanted.packages]
        there = set(dpkg.installed_names(names, self._quick))
        # An installed package without a stated version stays as it is.
        to_install = [one for one in wanted.packages if "=" in one or dpkg.name_of(one) not in there]
        fetch = Fetch(entries(to_install, installed, wanted.version), *wanted.preferences, self.run)
        try:
            return fetch.change()
        except FetchError as error:
            why = error
        if self.refresh and self.run(["apt-get", "--quiet", "update"], _SLOW).code == 0:
            try:
                return fetch.change()
            except FetchError as error:
                why = error
        self.problems.append(str(why))
        return None

    def _space(self, is_pending: bool) -> dict[str, int]:
        """Return bytes that the copies need, and free bytes where they are written."""
        found = {"state": 0, "database": 0, "free": _free(self.base), "database_free": 0}
        wanted = self.requested
        if wanted.state and is_pending:
            try:
                found["state"] = StateArchive(Path(wanted.state)).size()
            except ArchiveError as error:
                self.problems.append(str(error))
        if wanted.database and is_pending:
            try:
                database = Database(wanted.database, _QUICK, self.run)
                found["database"] = database.size()
                found["database_free"] = _free(database.directory())
            except DumpError as error:
                self.problems.append(str(error))
        return found

    def _folders(self) -> dict[str, dict[str, Any]]:
        """Return folder of an upgrade to this release -> its marks."""
        found = {}
        release = self.requested.version.rstrip("*").rstrip(".")
        for path in sorted(self.base.glob(f"*-{release}")):
            try:
                found[path.name] = UpgradeFolder(self.base, path.name.rpartition("-")[0], release).marks()
            except ValueError as error:
                self.problems.append(str(error))
        return found

    def _is_active(self, unit: str) -> bool:
        return self._quick(["systemctl", "is-active", "--quiet", unit]).code == 0

    def _required_plugins(self) -> list[str]:
        """Return plugins of `required` lines that no package of Slurm owns: another release refuses them, and then every job."""
        names = sorted({name for path in _plugstack_files() for name in required_in(path.read_text(errors="replace"))})
        return [name for name in names if not self._is_slurms(name)]

    def _is_slurms(self, plugin: str) -> bool:
        done = self._quick(["dpkg-query", "--search", plugin if plugin.startswith("/") else f"*/{plugin}"])
        owners = {line.partition(":")[0] for line in done.stdout.splitlines()}
        return done.code == 0 and any(matches_any(one, self.requested.release) for one in owners)

    def _quick(self, argv: Sequence[str]) -> Outcome:
        return self.run(argv, _QUICK)


def required_in(text: str) -> list[str]:
    """Return the plugins that a plugstack.conf requires.

    >>> required_in("# x\\nrequired /usr/local/lib/slurm/spank_pyxis.so a=b\\noptional other.so\\ninclude /etc/x")
    ['/usr/local/lib/slurm/spank_pyxis.so']
    """
    rows = [line.split() for line in text.splitlines()]
    return [row[1] for row in rows if len(row) > 1 and row[0] == "required"]


def _plugstack_files() -> list[Path]:
    found: list[Path] = []
    for name in _PLUGSTACKS:
        path = Path(name)
        found += [path] if path.is_file() else sorted(one for one in path.glob("*") if one.is_file())
    return found


def _free(path: Path) -> int:
    """Return the free bytes of the file system of a path, which may not exist yet."""
    there = next(one for one in (path, *path.parents) if one.exists())
    found = os.statvfs(there)
    return found.f_bavail * found.f_frsize
