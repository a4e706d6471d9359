# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the repositories of dnf: the sections of `.repo` files (dnf.conf(5))."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

YUM = Path("/etc/yum.repos.d")
_SECTION = re.compile(r"\[(?P<id>[^\]]+)\]\s*\Z")
_NO = ("0", "no", "false", "off")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))")


@dataclass(frozen=True)
class YumSource:
    """An enabled repository: its id, its addresses, the lines of its section, counted from 1, and the files of its keys."""

    path: str
    lines: tuple[int, int]
    name: str
    urls: tuple[str, ...]
    keys: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Return file and line, for people."""
        return f"{self.path}:{self.lines[0]}"


def source_files(directory: Path = YUM) -> list[Path]:
    """Return the files that dnf reads there. OSError: the directory cannot be read."""
    return sorted(one for one in directory.iterdir() if one.suffix == ".repo") if directory.is_dir() else []


def parse(path: str, text: str, variables: Mapping[str, str] | None = None) -> list[YumSource]:
    """Return the enabled repositories of a file with their addresses; a list of mirrors is not read.

    >>> parse("x.repo", "[cuda]\\nbaseurl=http://m.example.org/rhel9/$basearch/\\n", {"basearch": "x86_64"})[0].urls
    ('http://m.example.org/rhel9/x86_64',)
    """
    found = []
    for name, first, last, options in _sections(text):
        if name != "main" and options.get("enabled", "1").lower() not in _NO:
            urls = [_substituted(url, variables or {}) for url in re.split(r"[\s,]+", options.get("baseurl", ""))]
            keys = re.findall(r"file://(/[^\s,]+)", options.get("gpgkey", ""))
            found.append(
                YumSource(path, (first, last), name, tuple(url.rstrip("/") for url in urls if url), tuple(keys))
            )
    return found


def switched_off(text: str, entries: Sequence[YumSource]) -> str:
    """Return the text of a file with these of its repositories disabled, and everything else as it was."""
    lines = text.split("\n")
    for first, last in sorted({one.lines for one in entries}, reverse=True):
        kept, inside = [], False
        for line in lines[first:last]:
            if not line[:1].isspace() and not line.startswith(("#", ";")):
                inside = line.partition("=")[0].strip().lower() == "enabled"
            if not inside:
                kept.append(line)
        lines[first - 1 : last] = [lines[first - 1], "enabled=0", *kept]
    return "\n".join(lines)


def _substituted(url: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found["braced"] or found["plain"], found[0]), url)


def _sections(text: str) -> Iterator[tuple[str, int, int, dict[str, str]]]:
    """Yield id, first line, last line and options of each section; names of options are in small letters."""
    name, first, key = "", 0, ""
    options: dict[str, str] = {}
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if found := _SECTION.match(line):
            if name:
                yield name, first, number - 1, options
            name, first, key, options = found["id"], number, "", {}
        elif line.startswith(("#", ";")) or not line.strip():
            continue
        elif line[0].isspace() and key:
            options[key] += f"\n{line.strip()}"
        elif "=" in line:
            key, _sign, value = (part.strip() for part in line.partition("="))
            key = key.lower()
            options[key] = value
    if name:
        yield name, first, len(lines), options
