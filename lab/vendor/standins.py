# SPDX-License-Identifier: GPL-3.0-or-later
"""Content of the stand-ins: their relations, and the few files and scripts that must behave like the real ones."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from lab.vendor import scripts
from lab.vendor.found import CANONICAL, Found

HERE = Path(__file__).parent
REPOSITORIES = ("nvidia", "toolkit")
"""NVIDIA's two; the second is called by the one part that it has."""
UBUNTU = "ubuntu"
"""Canonical's archive, which is signed by the distribution's own key."""
_TOOLKIT_PART = "toolkit"
_RELATIONS = ("depends", "pre_depends", "breaks", "provides", "replaces")
_LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}
# The second is a call as it was before a kernel changed what it calls.
_PROBE = {False: "0, 0", True: "0"}


@dataclass(frozen=True)
class Content:
    """A file of a package: its text, or where its link leads; octal mode."""

    text: str
    mode: int = 0o644
    link: bool = False


@dataclass(frozen=True)
class StandIn:
    """A package to be. `files` by path without the first slash, `scripts` by their name in dpkg's records."""

    name: str
    version: str
    repository: str
    depends: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    pre_depends: tuple[str, ...] = ()
    recommends: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    files: Mapping[str, Content] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    streams: tuple[str, ...] = ()

    @property
    def conffiles(self) -> list[str]:
        """Files that a package keeps as an operator has changed them."""
        return [path for path in self.files if path.startswith("etc/")]


@cache
def _data(file: str = "packages.json") -> dict[str, Any]:
    data: dict[str, Any] = json.loads((HERE / file).read_text())
    return data


def stand_ins(found: Sequence[Found], forbidden: str, broken: Collection[str] = ()) -> list[StandIn]:
    """Return the stand-ins for these packages and for what would drag in a driver; `broken` are drivers that do not compile.

    `forbidden` is a package that one of them conflicts with; it is built, too, to be removed in a test.
    """
    made = [one for package in found if (one := _of_source(package, found, broken))]
    return [*made, *_metapackages(made, found), *(one for one in _always() if one.name == forbidden)]


def _row(name: str, file: str = "packages.json") -> dict[str, Any]:
    rows = (row for row in _data(file)["packages"] if any(fnmatchcase(name, one) for one in row["names"]))
    return next(rows, {})


def _of_source(package: Found, found: Sequence[Found], broken: Collection[str]) -> StandIn | None:
    is_canonicals = package.source == CANONICAL and package.branch
    return _of_canonical(package, found, broken) if is_canonicals else _made(package, found, broken)


def _of_canonical(package: Found, found: Sequence[Found], broken: Collection[str]) -> StandIn:
    row = _row(package.name, "canonical.json")
    words = {
        "branch": package.branch,
        "upstream": package.upstream,
        "version": package.version,
        "open": "-open" if package.name.endswith("-open") else "",
    }
    said = {key: tuple(text.format(**words) for text in row.get(key, ())) for key in _RELATIONS}
    alone = tuple(row.get("alone", ()))
    tree = row.get("tree", "")
    files, given = _files(package, row, tree), _scripts(package, tree)
    if package.dkms:
        given = _scripts(package, "dkms")
        files |= _tree("dkms", _words(package, broken))
    if _holds_sources(package):
        files |= _tree("module", _words(_module(package, found), broken))
    units = [Path(path).name for path in files if path.startswith("usr/lib/systemd/system/")]
    return StandIn(
        name=package.name,
        version=package.version,
        repository=UBUNTU,
        depends=said["depends"],
        pre_depends=said["pre_depends"],
        breaks=said["breaks"],
        provides=alone + said["provides"],
        conflicts=alone,
        replaces=alone + said["replaces"],
        files=files,
        scripts=scripts.with_units(given, units, row.get("enabled", ())),
    )


def _made(package: Found, found: Sequence[Found], broken: Collection[str]) -> StandIn | None:
    row = _row(package.name)
    version = row.get("version", package.version)
    if version == "*":
        return None  # the distribution's
    names = {one.name for one in found if one.version == package.version}
    depends = [f"{name} (= {version})" for name in _named(row.get("same", ()), package.branch, names)]
    depends += [f"{name} (>= {version})" for name in _named(row.get("after", ()), package.branch, names)]
    depends += [_of_cuda(text, package.cuda) for text in row.get("needs", ())]
    alone = tuple(name for name in row.get("alone", ()) if name != package.name)
    conflicts = [*row.get("conflicts", ()), *alone]
    tree = row.get("tree", "")
    if row.get("unless") in names:
        row, tree = {}, ""
    files, given = _files(package, row, tree), _scripts(package, tree)
    if package.dkms:
        depends = ["dkms", *row.get("builds_with", ()), *(f"{name} (= {version})" for name in package.with_kernel)]
        given = _scripts(package, "dkms")
        files |= _tree("dkms", _words(package, broken))
    if _holds_sources(package):
        files |= _tree("module", _words(_module(package, found), broken))
    if package.dkms or _holds_sources(package):
        conflicts += _other_flavours(package, found, version)
    units = [Path(path).name for path in files if path.startswith("usr/lib/systemd/system/")]
    return StandIn(
        name=package.name,
        version=version,
        repository=REPOSITORIES[package.part == _TOOLKIT_PART],
        depends=tuple(depends),
        conflicts=tuple(conflicts),
        recommends=tuple(f"{name} (= {version})" for name in row.get("recommends", ()) if name in names),
        replaces=(*row.get("replaces", ()), *alone),
        provides=alone,
        files=files,
        scripts=scripts.with_units(given, units, row.get("enabled", ())),
        streams=package.streams,
    )


def _named(templates: Iterable[str], branch: str, names: Collection[str]) -> list[str]:
    """Return the existing packages; `{-branch}` is a suffix that some sets have and others do not."""
    wanted = [
        one.replace("{-branch}", end).replace("{branch}", branch) for one in templates for end in (f"-{branch}", "")
    ]
    return [name for name in dict.fromkeys(wanted) if name in names]


def _module(package: Found, found: Sequence[Found]) -> Found:
    """Return the package with the module that this one has the sources of."""
    if package.dkms:
        return package
    return next(one for one in found if one.version == package.version and package.name in one.with_kernel)


def _holds_sources(package: Found) -> bool:
    """Ubuntu has the sources of the module in another package than the settings of DKMS."""
    if package.dkms:
        return not any("kernel-source" in name for name in package.with_kernel)
    return package.part == "kernel" and "kernel-source" in package.name


def _other_flavours(package: Found, found: Sequence[Found], version: str) -> list[str]:
    """Return the packages that have the same files for the other flavour of the module."""
    kinds = (bool(package.dkms), _holds_sources(package))
    others = {one.name for one in found if one.version == version and (bool(one.dkms), _holds_sources(one)) == kinds}
    return sorted(others - {package.name})


def _words(package: Found, broken: Collection[str] = ()) -> dict[str, str]:
    """Return the replacements of the words between at signs."""
    short = ".".join(package.upstream.split(".")[:2])
    return {
        "@NAME@": package.name,
        "@VERSION@": package.upstream,
        "@SHORT@": short,
        "@MAJOR@": short.split(".")[0],
        "@PRIORITY@": short.replace(".", ""),
        "@DKMS@": package.dkms,
        "@LICENSE@": _LICENSES.get(package.flavour, ""),
        "@PROBE@": _PROBE[package.upstream in broken],
    }


def _files(package: Found, row: Mapping[str, Any], tree: str) -> dict[str, Content]:
    files = _tree(tree, _words(package)) if tree else {}
    folder = f"usr/lib/{platform.machine()}-linux-gnu"
    for library, major in row.get("libraries", {}).items():
        whole = f"{library}.so.{package.upstream}"
        files[f"{folder}/{whole}"] = Content("Stand-in for tests, not NVIDIA's software\n")
        files[f"{folder}/{library}.so.{major}"] = Content(whole, 0o777, link=True)
    return files


def _scripts(package: Found, tree: str) -> dict[str, str]:
    words = _words(package)
    folder = HERE / "trees" / tree / "DEBIAN"
    return {path.name: _filled(path.read_text(), words) for path in sorted(folder.glob("*"))} if tree else {}


@cache
def _raw(tree: str) -> tuple[tuple[str, str], ...]:
    folder = HERE / "trees" / tree
    paths = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return tuple((str(path), (folder / path).read_text()) for path in paths if path.parts[0] != "DEBIAN")


def _tree(tree: str, words: Mapping[str, str]) -> dict[str, Content]:
    return {
        _filled(path, words): Content(_filled(text, words), 0o755 if text.startswith("#!") else 0o644)
        for path, text in _raw(tree)
    }


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _metapackages(made: Sequence[StandIn], found: Sequence[Found]) -> Iterable[StandIn]:
    """Yield packages that depend on a driver of any version, against which a pinned set must hold."""
    drivers = {one.version: one.branch for one in found if one.dkms}
    for version, branch in drivers.items():
        names = {one.name for one in made if one.version == version}
        for row in _data()["each driver"]:
            depends = [f"{name} (= {version})" for name in _named(row["same"], branch, names)]
            yield StandIn(row["name"], version, REPOSITORIES[0], tuple(depends))
    for cuda in sorted({one.cuda for one in found} - {""}):
        for row in _data()["each cuda"]:
            if row["name"] not in {one.name for one in made}:
                name, version, *depends = (
                    _of_cuda(text, cuda) for text in (row["name"], row["version"], *row.get("depends", ()))
                )
                yield StandIn(name, version, REPOSITORIES[0], tuple(depends))


def _of_cuda(text: str, cuda: str) -> str:
    return text.format(cuda=cuda, dashed=cuda.replace(".", "-"))


def _always() -> Iterable[StandIn]:
    return (StandIn(row["name"], row["version"], REPOSITORIES[0]) for row in _data()["always"])
