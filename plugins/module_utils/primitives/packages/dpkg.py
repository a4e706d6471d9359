# SPDX-License-Identifier: GPL-3.0-or-later
"""Find missing packages in dpkg's own records: one read, while apt would open its whole cache for this."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from ...common.files import atomic_write
from ...common.versions import matches, without_epoch

EXTENDED_STATES = Path("/var/lib/apt/extended_states")
# name, name:architecture, name=version, name=version*, name=*; only apt can resolve other forms, such as name/release.
_PLAIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]+)(?::(?P<arch>[a-z0-9-]+))?(?:=(?P<version>[^*?\[\s]+\*?|\*))?\Z")
_FORMAT = "${Package}\\t${Architecture}\\t${db:Status-Status}\\t${Version}\\n"


@dataclass(frozen=True)
class MissingPackages:
    """Work for apt: install `missing`, and mark `passing` as manual, which apt would remove with the packages that need them."""

    missing: list[str]
    passing: list[str]


def missing_packages(
    wanted: Sequence[str],
    run: Callable[[list[str]], Outcome] = command.run,
    states: Path | None = None,
) -> MissingPackages:
    """Return the packages that dpkg's records do not show as installed permanently and in the requested form.

    A package that only apt can resolve, such as a virtual package, counts as missing.
    """
    parsed = {entry: _PLAIN.match(entry) for entry in wanted}
    names = sorted({found["name"] for found in parsed.values() if found})
    if not names:
        return MissingPackages(list(wanted), [])
    # Query dpkg itself as well, to learn this machine's architecture.
    said = run(["dpkg-query", "--show", f"--showformat={_FORMAT}", "--", "dpkg", *names])
    versions = dict(_installed(said.stdout))
    native = next((arch for name, arch in versions if name == "dpkg"), "")
    there = {entry: _place(found, native, versions) for entry, found in parsed.items() if found}
    automatic = _automatic(states or EXTENDED_STATES)
    # apt records packages of architecture `all` under the machine's own.
    passing = [entry for entry, at in there.items() if at and automatic & {at, (at[0], native)}]
    return MissingPackages([entry for entry in parsed if not there.get(entry)], passing)


def mismatched(followers: Sequence[str], run: Callable[[list[str]], Outcome] = command.run) -> list[str]:
    """Return name=version of installed followers in another version; a follower without a version never mismatches."""
    return strayed(_followers(followers, run), matches)


def installed_names(followers: Sequence[str], run: Callable[[list[str]], Outcome] = command.run) -> list[str]:
    """Return the names of the installed followers, in any version."""
    return [name for there in _followers(followers, run).values() for name in there]


def installed_versions(patterns: Sequence[str], run: Callable[[list[str]], Outcome] = command.run) -> dict[str, str]:
    """Return name -> version of the installed packages that match a pattern."""
    return {
        name: versions[0]
        for there in _followers(patterns, run).values()
        for name, versions in there.items()
        if versions
    }


def _followers(followers: Sequence[str], run: Callable[[list[str]], Outcome]) -> dict[str, dict[str, list[str]]]:
    if not followers:
        return {}
    # dpkg accepts these patterns unchanged.
    said = run(["dpkg-query", "--show", f"--showformat={_FORMAT}", "--", *map(name_of, followers)])
    there: dict[str, list[str]] = {}
    for (name, _arch), version in _installed(said.stdout):
        there.setdefault(name, []).append(version)
    return followed(followers, there)


def of_other_versions(
    patterns: Sequence[str], version: str, run: Callable[[list[str]], Outcome] = command.run
) -> dict[str, str]:
    """Return name -> version of the installed packages that match a pattern and have another version, ignoring epochs."""
    found = _followers(patterns, run)
    return {
        name: one
        for there in found.values()
        for name, versions in there.items()
        for one in versions
        if not matches(without_epoch(one), version)
    }


def offered(names: Sequence[str], run: Callable[[list[str]], Outcome] = command.run) -> dict[str, list[str]]:
    """Return name -> versions in apt's lists, newest first."""
    return versions_of(run(["apt-cache", "madison", *names]).stdout, names)


def versions_of(text: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Parse the output of `apt-cache madison NAMES`.

    >>> versions_of(" slurmd | 24.11.5-4 | http://deb.debian.org/debian trixie/main amd64 Packages", ["slurmd", "munge"])
    {'slurmd': ['24.11.5-4'], 'munge': []}
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for row in (line.split("|") for line in text.splitlines()):
        if len(row) > 1 and row[1].strip() not in found.setdefault(row[0].strip(), []):
            found[row[0].strip()].append(row[1].strip())
    return found


def name_of(entry: str) -> str:
    """Return the name, or name pattern, of name=version."""
    return entry.partition("=")[0]


def followed(followers: Sequence[str], there: Mapping[str, Sequence[str]]) -> dict[str, dict[str, list[str]]]:
    """Return entry -> name -> installed versions for entries name=version or name; a name may be a pattern.

    Each package belongs to one entry: the one with its name, or else the first whose pattern it matches.

    >>> followed(["*-12-9", "libcublas-12-9=1"], {"libcublas-12-9": ["1"], "cuda-nvcc-12-9": ["2"]})
    {'*-12-9': {'cuda-nvcc-12-9': ['2']}, 'libcublas-12-9=1': {'libcublas-12-9': ['1']}}
    """
    entries = {name_of(entry): entry for entry in followers}
    found: dict[str, dict[str, list[str]]] = {entry: {} for entry in followers}
    for name, versions in sorted(there.items()):
        entry = entries.get(name) or next((entries[one] for one in entries if fnmatchcase(name, one)), "")
        if entry:
            found[entry][name] = list(versions)
    return found


def strayed(found: Mapping[str, Mapping[str, Sequence[str]]], is_version: Callable[[str, str], bool]) -> list[str]:
    """Return name=version of the packages from `followed` that have a version other than their entry's."""
    return [
        f"{name}={version}"
        for entry, there in found.items()
        for name, versions in there.items()
        if (version := entry.partition("=")[2]) and not all(is_version(one, version) for one in versions)
    ]


class HoldsError(Exception):
    """Packages that could not be held."""


@dataclass(frozen=True)
class Held:
    """Changes, done or predicted: packages that are held now, and packages that are released.

    `added` and `dropped`: packages of which only the record of this manifest changes, because apt has them as wanted already.
    """

    hold: list[str]
    unhold: list[str]
    added: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    @property
    def changes(self) -> list[str]:
        """Return a line a package, as `libcuda1: held`."""
        return [
            *(f"{name}: held" for name in self.hold),
            *(f"{name}: no longer held" for name in self.unhold),
            *(f"{name}: held before, recorded now" for name in self.added),
            *(f"{name}: no longer recorded as held" for name in self.dropped),
        ]


class Holds:
    """Packages that apt must not change by itself, and the manifests that hold each."""

    def __init__(self, directory: Path, run: Callable[[list[str]], Outcome] = command.run) -> None:
        self.record = directory / "holds.json"
        self.run = run

    def of(self, manifest: str) -> list[str]:
        """Return the packages that a manifest holds."""
        return self._recorded().get(manifest, [])

    def apply(self, manifest: str, named: Sequence[str], check: bool, followers: Sequence[str] = ()) -> Held:
        """Hold the packages of a manifest, and release the packages that no manifest holds any more.

        A follower that another manifest holds is left to it: a later task would otherwise change the record of an earlier one.
        """
        recorded = self._recorded()
        before = recorded.get(manifest, [])
        others = {name for owner, names in recorded.items() if owner != manifest for name in names}
        own = [name for name in followers if name in before or name not in others]
        wanted = [*dict.fromkeys([*named, *own])]
        if not wanted and not before:
            return Held([], [])
        held = set(self._mark("showhold").split())
        hold = [name for name in wanted if name not in held]
        unhold = [name for name in before if name in held and name not in {*wanted, *others}]
        done = Held(
            hold,
            unhold,
            [name for name in wanted if name not in {*before, *hold}],
            [name for name in before if name not in {*wanted, *unhold}],
        )
        if not check:
            for verb, names in (("hold", done.hold), ("unhold", done.unhold)):
                if names:
                    self._mark(verb, *names)
            # The order is no change.
            if set(before) != set(wanted):
                self._write({**recorded, manifest: wanted})
        return done

    def _mark(self, verb: str, *names: str) -> str:
        outcome = self.run(["apt-mark", verb, *names])
        if outcome.code != 0:
            raise HoldsError(f"apt-mark {verb} {' '.join(names)}: {outcome.text or 'no output'}")
        return outcome.stdout

    def _recorded(self) -> dict[str, list[str]]:
        try:
            return dict(json.loads(self.record.read_text()))
        except FileNotFoundError:
            return {}

    def _write(self, recorded: Mapping[str, Sequence[str]]) -> None:
        self.record.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        text = json.dumps({owner: names for owner, names in recorded.items() if names}, indent=1) + "\n"
        atomic_write(self.record, text)


def outdated(apt: Path = Path("/etc/apt"), lists: Path = Path("/var/lib/apt/lists")) -> bool:
    """Return whether apt read its lists before its sources were last changed, by any program or run."""
    sources = [apt / "sources.list", apt / "sources.list.d", *sorted((apt / "sources.list.d").glob("*"))]
    stamps = [path.stat().st_mtime for path in sources if path.exists()]
    # Equal times count as outdated: file system clocks have steps.
    return not lists.exists() or max(stamps, default=0.0) >= lists.stat().st_mtime


def unknown(wanted: Sequence[str], run: Callable[[list[str]], Outcome] = command.run) -> list[str]:
    """Return the name=version entries that apt's lists lack, for example because the site added the version after they were read."""
    parsed = {entry: found for entry in wanted if (found := _PLAIN.match(entry)) and found["version"]}
    if not parsed:
        return []
    has = offered(sorted({entry.partition("=")[0] for entry in parsed}), run)
    versions = {(name.partition(":")[0], version) for name, listed in has.items() for version in listed}
    return [
        entry
        for entry, found in parsed.items()
        if not any(name == found["name"] and matches(version, found["version"]) for name, version in versions)
    ]


def _place(found: re.Match[str], native: str, versions: Mapping[tuple[str, str], str]) -> tuple[str, str] | None:
    """Return name and architecture under which a package is installed in the requested form."""
    for at in ((found["name"], found["arch"] or native), (found["name"], "all")):
        if at in versions and matches(versions[at], found["version"] or ""):
            return at
    return None


def _installed(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    for line in text.splitlines():
        name, arch, status, version = line.split("\t")
        if status == "installed":
            yield (name, arch), version


def _automatic(states: Path) -> set[tuple[str, str]]:
    """Return (name, architecture) of the packages that apt would remove together with their dependents."""
    try:
        stanzas = states.read_text().split("\n\n")
    except FileNotFoundError:
        return set()
    found = set()
    for stanza in stanzas:
        fields = dict(line.partition(": ")[::2] for line in stanza.splitlines())
        if fields.get("Auto-Installed") == "1":
            found.add((fields.get("Package", ""), fields.get("Architecture", "")))
    return found
