# SPDX-License-Identifier: GPL-3.0-or-later
"""Let dnf read new repositories before it trusts them, and find packages that no repository has.

Facts, from dnf 4.14 with signed repositories: dnf imports the key of `gpgkey` into a keyring below its cache, one for each repository, and
keeps it there over `dnf clean all`. So an old key would still prove the list of packages after the file of the key has changed.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from ..files.file_plan import DesiredFile
from . import yum_sources
from .yum_sources import YumSource

CACHE = Path("/var/cache/dnf")
_SECONDS = 600.0
_NO_PROVIDER = re.compile(r"nothing provides (?P<what>.+?) needed by (?P<package>\S+)")


def _patient(argv: list[str]) -> Outcome:
    """Run dnf, which may read lists of many megabytes."""
    return command.run(argv, _SECONDS)


@dataclass(frozen=True)
class DnfCheck:
    """dnf on this machine. `yum` is the directory of its repositories, `cache` that of their lists and keyrings."""

    yum: Path = yum_sources.YUM
    cache: Path = CACHE
    run: Callable[[list[str]], Outcome] = _patient

    def has_sources(self, changed: Collection[str], wanted: Sequence[DesiredFile]) -> bool:
        """Return whether one of these paths is a file of repositories, or a key of the desired ones."""
        keys = {key for one in self._sources(wanted) for key in one.keys}
        return any(Path(path).parent == self.yum or path in keys for path in changed)

    def refused(self, wanted: Sequence[DesiredFile]) -> str:
        """Read the desired repositories with the keys on disk, and no others; return dnf's error, "" without one.

        An answer that does not come in time is no refusal.
        """
        names = [one.name for one in self._sources(wanted)]
        if not names:
            return ""
        with tempfile.TemporaryDirectory(prefix="bedplate-dnf-") as cache:
            done = self.run([*_only(names), f"--setopt=reposdir={self.yum}", f"--setopt=cachedir={cache}", "makecache"])
        if done.code in (0, None, command.NOT_STARTED):
            return ""
        return _error(done)

    def forget_keys(self, wanted: Sequence[DesiredFile]) -> None:
        """Remove the keyrings of the desired repositories, so that dnf trusts the keys on disk alone."""
        for one in self._sources(wanted):
            for keyring in self.cache.glob(f"{one.name}-*/pubring"):
                shutil.rmtree(keyring, ignore_errors=True)

    def lacking(self, packages: Sequence[str], addresses: Sequence[str]) -> list[str]:
        """Return a line for each package that dnf cannot install from enabled repositories or from `addresses`, where ours will be.

        Nothing is installed, and no key is imported.
        """
        if not packages:
            return []
        more = [word for number, url in enumerate(addresses) for word in _by_address(f"bedplate-{number}", url)]
        missing = [
            name for name in packages if not self._offered(name, []) and not (more and self._offered(name, more))
        ]
        if missing:
            return [f"{name}: no enabled repository has it" for name in missing]
        done = self.run(["dnf", "--quiet", "--assumeno", *more, "install", *packages])
        found = dict.fromkeys(_NO_PROVIDER.findall(done.text))
        return [f"{package} needs {what}: no enabled repository has it" for what, package in found]

    def _offered(self, name: str, more: Sequence[str]) -> bool:
        done = self.run(["dnf", "--quiet", *more, "repoquery", "--queryformat", "%{name}", name])
        # dnf that cannot read its repositories says so when it installs, with the repository.
        return done.code != 0 or bool(done.stdout.strip())

    def _sources(self, wanted: Sequence[DesiredFile]) -> list[YumSource]:
        return [
            one
            for entry in wanted
            if entry.state == "file" and Path(entry.path).parent == self.yum
            for one in yum_sources.parse(entry.path, entry.content.decode("utf-8", "replace"))
        ]


def _only(names: Sequence[str]) -> list[str]:
    return ["dnf", "--quiet", "--assumeyes", "--disablerepo=*", *(f"--enablerepo={name}" for name in names)]


def _by_address(name: str, url: str) -> list[str]:
    """Return the options that add a repository to one command. Its lists are read to find names alone."""
    return [f"--repofrompath={name},{url}", f"--setopt={name}.gpgcheck=0", f"--setopt={name}.repo_gpgcheck=0"]


def _error(done: Outcome) -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines()]
    errors = [line for line in lines if line.startswith("Error")]
    return " ".join(errors or lines) or f"ended with {done.code}"
