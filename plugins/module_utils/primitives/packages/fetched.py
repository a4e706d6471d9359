# SPDX-License-Identifier: GPL-3.0-or-later
"""Predict and download an upgrade with apt before anything is installed, and keep the old packages for the way back.

The pins of the installed release stay in force meanwhile: apt reads other preferences from a scratch folder for these calls alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ...common import command
from ...common.command import Outcome
from . import dpkg

ARCHIVES = Path("/var/cache/apt/archives")
POLICY = Path("/usr/sbin/policy-rc.d")
_PREFERENCES = Path("/etc/apt/preferences.d")
_LOCK = ("-o", "DPkg::Lock::Timeout=300")
_OPTIONS = ("--quiet", "--yes", "--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages", *_LOCK)
_QUICK, _SLOW = 120.0, 3600.0  # seconds
# Inst slurmd [24.11.5-4] (26.05.5-1 Debian:unstable [amd64]) []
_INST = re.compile(r"^Inst (?P<name>\S+) (?:\[(?P<old>[^]]*)\] )?\((?P<new>\S+)")
_REMV = re.compile(r"^Remv (?P<name>\S+)")
_URI = re.compile(r"^'[^']*' \S+ (?P<size>\d+)")

Run = Callable[..., Outcome]


class FetchError(Exception):
    """apt cannot have packages; the text is complete."""


@dataclass(frozen=True)
class Change:
    """Hold what an installation would change: package -> (old version or "", new version), removed packages, bytes to download."""

    installed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    removed: Sequence[str] = ()
    size: int = 0


def parse_simulation(text: str) -> Change:
    """Parse the output of `apt-get --simulate install`.

    >>> parse_simulation("Inst slurmd [24.11.5-4] (26.05.5-1 sid [amd64])\\nRemv slurm-wlm-x [24.11]").removed
    ['slurm-wlm-x']
    """
    installed = {
        found["name"]: (found["old"] or "", found["new"]) for found in map(_INST.match, text.splitlines()) if found
    }
    removed = [found["name"] for found in map(_REMV.match, text.splitlines()) if found]
    return Change(installed, removed)


class Fetch:
    """Installation of packages with preferences in place of the file `name` of /etc/apt/preferences.d."""

    def __init__(
        self,
        packages: Sequence[str],
        name: str,
        text: str,
        run: Run = command.run,
        preferences: Path = _PREFERENCES,
    ) -> None:
        """`packages` are entries of apt, such as slurmd=26.05.*. `text` is the content of the preferences."""
        self.packages = list(packages)
        self._name, self._text = name, text
        self._run = run
        self._preferences = preferences

    def change(self) -> Change:
        """Return what would change. Raises FetchError with apt's words if it cannot be installed."""
        if not self.packages:
            return Change()
        with self._view() as view:
            said = self._apt([*view, "--simulate", "install", *self.packages], _QUICK)
            found = parse_simulation(said)
            uris = self._apt([*view, "--print-uris", "install", *self.packages], _QUICK)
        sizes = [int(one["size"]) for one in map(_URI.match, uris.splitlines()) if one]
        return Change(found.installed, found.removed, sum(sizes))

    def download(self) -> None:
        """Download all packages into apt's archives. Raises FetchError."""
        with self._view() as view:
            self._apt([*view, "--download-only", "install", *self.packages], _SLOW)

    def _apt(self, arguments: Sequence[str], seconds: float) -> str:
        done = self._run(["apt-get", *_OPTIONS, *arguments], seconds)
        if done.code != 0:
            lines = [line for line in done.text.splitlines() if not line.startswith(("Reading", "Building", "WARNING"))]
            raise FetchError(f"apt-get install {' '.join(self.packages)}: {' / '.join(lines[-8:]) or done.error_line}")
        return done.stdout

    @contextmanager
    def _view(self) -> Iterator[list[str]]:
        """Yield the options for a folder of preferences with the new text in place of the old file."""
        with TemporaryDirectory(prefix="bedplate-apt-") as directory:
            folder = Path(directory)
            folder.chmod(0o755)  # apt's own user reads it, too
            others = self._preferences.iterdir() if self._preferences.is_dir() else iter(())
            for path in sorted(others):
                if path.is_file() and path.name != self._name:
                    shutil.copy(path, folder / path.name)
            (folder / self._name).write_text(self._text, encoding="utf-8")
            yield ["-o", f"Dir::Etc::PreferencesParts={folder}"]


def not_to_be_had(packages: Mapping[str, str], run: Run = command.run, archives: Path = ARCHIVES) -> list[str]:
    """Return name=version of packages that neither a repository nor apt's archives have; `packages` is name -> version."""
    if not packages:
        return []
    offered = dpkg.offered(sorted(packages), lambda argv: run(argv, _QUICK))
    return [
        f"{name}={version}"
        for name, version in sorted(packages.items())
        if version not in offered.get(name, ()) and not _cached(archives, name, version)
    ]


def keep(packages: Mapping[str, str], folder: Path, run: Run = command.run, archives: Path = ARCHIVES) -> bool:
    """Put the .deb file of each package into a folder; return whether one was missing there. Raises FetchError."""
    missing = {name: version for name, version in packages.items() if not kept(folder, name, version)}
    for name, version in sorted(missing.items()):
        if cached := _cached(archives, name, version):
            shutil.copy(cached, folder / cached.name)
            continue
        options = ["--quiet", *_LOCK, "-o", "APT::Sandbox::User=root"]  # only root can write there
        done = run(["apt-get", *options, "download", f"{name}={version}"], _SLOW, cwd=folder)
        if done.code != 0 or not kept(folder, name, version):
            raise FetchError(f"apt-get download {name}={version}: {done.error_line}")
    return bool(missing)


def kept(folder: Path, name: str, version: str) -> Path | None:
    """Return the .deb file of a package in a folder, None without one."""
    return _cached(folder, name, version)


def install_kept(packages: Mapping[str, str], folder: Path, run: Run = command.run) -> None:
    """Install the kept packages, which starts no daemon. Raises FetchError if one is missing or apt fails."""
    files = {name: kept(folder, name, version) for name, version in packages.items()}
    if missing := sorted(name for name, path in files.items() if path is None):
        raise FetchError(f"{folder}: no package of {', '.join(missing)}")
    with no_starts():
        done = run(["apt-get", *_OPTIONS, "install", *map(str, sorted(filter(None, files.values())))], _SLOW)
    if done.code != 0:
        raise FetchError(f"apt-get install of the old packages: {done.text[-1500:]}")


@contextmanager
def no_starts(policy: Path = POLICY) -> Iterator[None]:
    """Let packages start and stop no daemon, as `policy_rc_d: 101` of ansible.builtin.apt does."""
    aside = policy.with_name(f"{policy.name}.bedplate")
    had = policy.exists()
    if had:
        policy.rename(aside)
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
        if had:
            aside.rename(policy)


def entries(requested: Iterable[str], installed: Mapping[str, str], version: str) -> list[str]:
    """Return entries of apt for an upgrade: each installed package of Slurm in the new version, and what a part requests besides.

    >>> entries(["slurmd=26.05.*", "munge"], {"slurmd": "24.11.5-4", "slurm-client": "24.11.5-4"}, "26.05.*")
    ['slurmd=26.05.*', 'munge', 'slurm-client=26.05.*']
    """
    named = list(requested)
    names = {dpkg.name_of(one) for one in named}
    return [*named, *(f"{name}={version}" for name in sorted(installed) if name not in names)]


def _cached(folder: Path, name: str, version: str) -> Path | None:
    """Return the file of a package as apt names it: an epoch's colon is %3a."""
    found = sorted(folder.glob(f"{name}_{version.replace(':', '%3a')}_*.deb"))
    return found[0] if found else None
