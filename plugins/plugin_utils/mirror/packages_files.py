# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages files: their paragraphs, and the dependencies among them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .mirror_model import MirrorError, Need

# apt checks the strongest one; a weak one beside it is of no use to anybody.
_LEFT_OUT = ("MD5sum", "MD5Sum", "SHA1", "Filename")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+\Z")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+~:-]*\Z")
_ARCHITECTURE = re.compile(r"[a-z0-9-]+\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_WORD = re.compile(r"[a-z0-9][a-z0-9+.-]*")

Fields = dict[str, str]


def parse(text: str) -> list[Fields]:
    """Return the paragraphs, each field with its further lines.

    >>> parse("Package: a\\nDescription: b\\n c\\n\\nPackage: d\\n")
    [{'Package': 'a', 'Description': 'b\\n c'}, {'Package': 'd'}]
    """
    found = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        fields: Fields = {}
        name = ""
        for line in block.splitlines():
            if line[:1] in (" ", "\t") and name:
                fields[name] += f"\n{line}"
            elif ":" in line:
                name, _colon, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            found.append(fields)
    return found


def check(fields: Mapping[str, str]) -> None:
    """Refuse a paragraph whose words would be unsafe as a file name, or that lacks what apt needs."""
    rules = {"Package": _NAME, "Version": _VERSION, "Architecture": _ARCHITECTURE, "SHA256": _SHA256}
    wrong = [f"{name} {fields.get(name)!r}" for name, rule in rules.items() if not rule.match(fields.get(name, ""))]
    if not fields.get("Size", "").isdecimal():
        wrong.append(f"Size {fields.get('Size')!r}")
    if wrong:
        raise MirrorError([f"an index has a package with {', '.join(wrong)}, which no package can have"])


def text_of(fields: Mapping[str, str], file: str) -> str:
    """Return a paragraph for a repository in which the package is in `file`."""
    lines = [f"{name}: {value}" if value else f"{name}:" for name, value in fields.items() if name not in _LEFT_OUT]
    return "\n".join([*lines, f"Filename: {file}"]) + "\n"


def parts_of(paragraphs: Mapping[str, Fields], needs: Iterable[Need]) -> dict[str, tuple[str, ...]]:
    """Return name -> the parts that need it, themselves or through others of these packages."""
    providers: dict[str, list[str]] = {}
    for name, fields in paragraphs.items():
        for provided in (name, *_words(fields.get("Provides", ""))):
            providers.setdefault(provided, []).append(name)
    found: dict[str, set[str]] = {name: set() for name in paragraphs}
    for need in needs:
        waiting = [need.name]
        while waiting:
            name = waiting.pop()
            if name not in found or need.part in found[name]:
                continue
            found[name].add(need.part)
            fields = paragraphs[name]
            depends = _words(f"{fields.get('Pre-Depends', '')}, {fields.get('Depends', '')}")
            waiting += [provider for word in depends for provider in providers.get(word, [])]
    return {name: tuple(sorted(parts)) for name, parts in found.items()}


def _words(text: str) -> list[str]:
    """Return the names in a list of dependencies, all alternatives.

    >>> _words("libc6 (>= 2.3), perl:any | perl-base [amd64], ")
    ['libc6', 'perl', 'perl-base']
    """
    alternatives = (one.strip() for group in text.split(",") for one in group.split("|"))
    return [match[0] for match in map(_WORD.match, alternatives) if match]
