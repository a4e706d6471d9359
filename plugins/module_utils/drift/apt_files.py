# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse apt's sources and preferences, with file and line of each entry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..common.sysfs import Root

_ONE_LINE = re.compile(r"\s*deb(?:-src)?\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)")
_YES = ("yes", "true", "1")


@dataclass(frozen=True)
class Source:
    """Hold a repository and suite of a file; `signed_by` is "" if not set, `trusted` is true if signatures are not checked."""

    path: str
    line: int
    uri: str
    suite: str
    signed_by: str
    trusted: bool

    @property
    def place(self) -> str:
        """Return file and line."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Pin:
    """Hold a stanza of preferences: package patterns, the pin and its priority."""

    path: str
    line: int
    packages: tuple[str, ...]
    pin: str
    priority: int

    @property
    def place(self) -> str:
        """Return file and line."""
        return f"{self.path}:{self.line}"


def sources(root: Root) -> Iterator[Source]:
    """Yield all enabled sources."""
    for path in ("etc/apt/sources.list", *_files(root, "etc/apt/sources.list.d", ".list")):
        for number, line in enumerate(root.lines(path), 1):
            if found := _ONE_LINE.match(line):
                options = dict(pair.partition("=")[::2] for pair in (found["options"] or "").split())
                yield _source(f"/{path}", number, found["uri"], found["suite"], options)
    for path in _files(root, "etc/apt/sources.list.d", ".sources"):
        for number, stanza in stanzas(root.lines(path)):
            fields = {key.lower(): value for key, value in stanza.items()}
            if fields.get("enabled", "yes").lower() in _YES:
                for uri in fields.get("uris", "").split():
                    for suite in fields.get("suites", "").split():
                        yield _source(f"/{path}", number, uri, suite, fields)


def _source(path: str, line: int, uri: str, suite: str, options: Mapping[str, str]) -> Source:
    trusted = any(options.get(key, "").lower() in _YES for key in ("trusted", "allow-insecure"))
    return Source(path, line, uri.rstrip("/"), suite, " ".join(options.get("signed-by", "").split()), trusted)


def pins(root: Root) -> Iterator[Pin]:
    """Yield all preferences."""
    folder = "etc/apt/preferences.d"
    names = [name for name in root.names(folder) if "." not in name or name.endswith(".pref")]
    for path in ("etc/apt/preferences", *(f"{folder}/{name}" for name in names)):
        for number, stanza in stanzas(root.lines(path)):
            priority = stanza.get("Pin-Priority", "")
            if re.fullmatch(r"-?\d+", priority):
                packages = tuple(stanza.get("Package", "").split())
                yield Pin(f"/{path}", number, packages, stanza.get("Pin", ""), int(priority))


def stanzas(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the stanzas in these lines, each with its first line number."""
    fields: dict[str, str] = {}
    start, key = 0, ""
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield start, fields
            fields, key = {}, ""
        elif line[0] in " \t" and key:
            fields[key] += f"\n{line.strip()}"
        elif ":" in line:
            start = start if fields else number
            key, _colon, value = line.partition(":")
            fields[key] = value.strip()


def _files(root: Root, folder: str, ending: str) -> list[str]:
    return [f"{folder}/{name}" for name in root.names(folder) if name.endswith(ending)]
