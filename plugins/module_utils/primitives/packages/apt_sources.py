# SPDX-License-Identifier: GPL-3.0-or-later
"""Read apt's sources as apt reads them: the lines of `.list` files and the paragraphs of `.sources` files.

The rules are those of apt's own reader (apt-pkg/sourcelist.cc, deb/debmetaindex.cc of apt 2.6 and 3.0; sources.list(5)): the order of the
files, comments, options in brackets, several URIs and suites in a paragraph, and when two entries are one repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

APT = Path("/etc/apt")
# apt ignores other names in sources.list.d.
_NAME = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_:.-]*\.(list|sources)\Z")
_TYPES = ("deb", "deb-src")
# Values that apt's StringToBool reads as false.
_NO = ("no", "false", "without", "off", "disable", "0")
_BEGIN = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
# Options that change how apt checks the whole repository, also for other entries that name it.
_CHECKS = (
    "trusted",
    "allow-insecure",
    "allow-weak",
    "allow-downgrade-to-insecure",
    "check-valid-until",
    "valid-until-min",
    "valid-until-max",
    "check-date",
    "date-max-future",
    "inrelease-path",
)
# Protocol, user and password: apt's name of a Release file on disk has none of them.
_ACCESS = re.compile(r"\A[^:/]*:(?://)?(?:[^/@]*@)?")
_QUOTED = re.compile(r"%([0-9A-Fa-f]{2})")
_WORD = re.compile(r'(?:"[^"]*"|\[[^\]]*\]|[^\s"\[])+')


@dataclass(frozen=True)
class AptSource:
    """One repository of one entry that is in force.

    `lines` is the first and the last line of the entry, counted from 1. `signed_by` is as apt compares it, "" without the option. `checks`
    are options that change how apt checks the repository, as `name=value`.
    """

    path: str
    lines: tuple[int, int]
    uri: str
    suite: str
    signed_by: str = ""
    checks: tuple[str, ...] = field(default=())

    @property
    def release(self) -> str:
        """Return the directory of the Release file."""
        if self.suite == "/":
            return self.uri
        return f"{self.uri}{self.suite}" if self.suite.endswith("/") else f"{self.uri}dists/{self.suite}/"

    @property
    def repository(self) -> str:
        """Return what apt takes for one repository, about which entries must agree: its Release file, by whichever protocol and user."""
        return _ACCESS.sub("", self.release)

    @property
    def place(self) -> str:
        """Return file and line, for people."""
        return f"{self.path}:{self.lines[0]}"


def source_files(apt: Path = APT) -> list[Path]:
    """Return the files that apt reads, in its order. OSError: the directory cannot be read."""
    parts = apt / "sources.list.d"
    names = sorted(one.name for one in parts.iterdir()) if parts.is_dir() else []
    found = [apt / "sources.list", *(parts / name for name in names if _NAME.match(name))]
    return [one for one in found if one.is_file()]


def parse(path: str, text: str, architecture: str = "") -> list[AptSource]:
    """Return the entries in force of a file: its name says in which form it is. What apt cannot read is left out.

    >>> [one.suite for one in parse("x.list", "deb [signed-by=/k.gpg] http://m.example.org/d trixie main # our copy")]
    ['trixie']
    """
    entries = _paragraphs(path, text) if path.endswith(".sources") else _list_lines(path, text)
    return [_substituted(one, architecture) for one in entries]


def normalised_key(text: str) -> str:
    """Return a Signed-By as apt compares it: an embedded key line by line, else files and fingerprints with a comma between them.

    >>> normalised_key(" /a.gpg  0123456789abcdef0123456789abcdef01234567!")
    '/a.gpg,0123456789ABCDEF0123456789ABCDEF01234567'
    """
    stripped = text.strip()
    if stripped.startswith(_BEGIN):
        lines = [line.strip() for line in stripped.splitlines()]
        return "\n".join("" if line == "." else line for line in lines)
    words = [word for word in re.split(r"[\s,]+", stripped) if word]
    return ",".join(word if word.startswith("/") else word.upper().rstrip("!") for word in words)


def switched_off(path: str, text: str, entries: Sequence[AptSource]) -> str:
    """Return the text of a file with these of its entries switched off, and everything else as it was."""
    lines = text.split("\n")
    for first, last in sorted({one.lines for one in entries}, reverse=True):
        if path.endswith(".sources"):
            lines[first - 1 : last] = _without_enabled(lines[first - 1 : last])
        else:
            lines[first - 1] = f"# {lines[first - 1]}"
    return "\n".join(lines)


def _without_enabled(paragraph: list[str]) -> list[str]:
    """Return the lines of a paragraph that says `Enabled: no`, once."""
    kept, inside = [], False
    for line in paragraph:
        if not line.startswith("#") and not line[:1].isspace():
            inside = line.partition(":")[0].strip().lower() == "enabled"
        if not inside:
            kept.append(line)
    return ["Enabled: no", *kept]


def _substituted(entry: AptSource, architecture: str) -> AptSource:
    uri = entry.uri.replace("$(ARCH)", architecture)
    suite = entry.suite.replace("$(ARCH)", architecture)
    return AptSource(
        entry.path,
        entry.lines,
        uri if uri.endswith("/") else f"{uri}/",
        suite,
        entry.signed_by,
        entry.checks,
    )


def _list_lines(path: str, text: str) -> Iterator[AptSource]:
    for number, line in enumerate(text.split("\n"), 1):
        words = _WORD.findall(_before_comment(line))
        if not words or words[0] not in _TYPES:
            continue
        options, rest = _options(line[line.index(words[0]) + len(words[0]) :])
        words = [_decoded(word) for word in _WORD.findall(_before_comment(rest))]
        if len(words) >= 2:
            yield _entry(path, (number, number), words[0], words[1], options)


def _decoded(word: str) -> str:
    return _QUOTED.sub(lambda found: chr(int(found[1], 16)), word.replace('"', ""))


def _before_comment(line: str) -> str:
    """Return a line up to its comment; a # inside of brackets begins none."""
    at, end = 0, len(line)
    while at < end and line[at] != "#":
        close = line.find("]", at) if line[at] == "[" else -1
        at = max(at, close) + 1
    return line[:at]


def _options(text: str) -> tuple[dict[str, str], str]:
    """Return the options in brackets at the start of a text, by name in small letters, and the text after them.

    The bracket ends where a word begins with the closing one, or where a word ends with it.
    """
    rest, found = text.lstrip(), {}
    if not rest.startswith("["):
        return {}, rest
    rest = rest[1:].lstrip()
    while rest and not rest.startswith("]"):
        match = _WORD.match(rest)
        if not match:
            return {}, ""
        word = match[0]
        is_last = word.endswith("]")
        name, _sign, value = _decoded(word.removesuffix("]") if is_last else word).partition("=")
        found[name.rstrip("+-").lower()] = value
        rest = rest[match.end() :].lstrip()
        if is_last:
            return found, rest
    return found, rest[1:]


def _paragraphs(path: str, text: str) -> Iterator[AptSource]:
    for first, last, fields in _fields(text):
        if fields.get("enabled", "").lower() in _NO:
            continue
        if not set(fields.get("types", "").split()) & set(_TYPES):
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield _entry(path, (first, last), uri, suite, fields)


def _fields(text: str) -> Iterator[tuple[int, int, dict[str, str]]]:
    """Yield the first line, the last line and the fields of each paragraph; names are in small letters."""
    first, last, name = 0, 0, ""
    fields: dict[str, str] = {}
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield first, last, {key: value.strip() for key, value in fields.items()}
            first, name, fields = 0, "", {}
            continue
        if not line[0].isspace():
            name, _colon, value = (part.strip() for part in line.partition(":"))
            name = name.lower()
            fields[name] = value
        elif name:
            fields[name] += f"\n{line.strip()}"
        first, last = first or number, number


def _entry(path: str, lines: tuple[int, int], uri: str, suite: str, options: dict[str, str]) -> AptSource:
    checks = tuple(f"{name}={options[name]}" for name in _CHECKS if options.get(name))
    return AptSource(path, lines, uri, suite, normalised_key(options.get("signed-by", "")), checks)
