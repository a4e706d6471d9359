# SPDX-License-Identifier: GPL-3.0-or-later
"""Text for operators: lists that stay short, and names: by pattern, and the one that somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def few(names: Iterable[str], most: int = 6) -> str:
    """Return names in a sentence, and how many more there are.

    >>> few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name is one of these, or matches one that is a shell's pattern.

    >>> matches_any("libcublas-12-9", ["munge", "*-12-9"]), matches_any("Munge", ["munge"])
    (True, False)
    """
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6, fold: bool = False, prefix: str = "") -> str:
    """Return the known word that is most like this one, "" where none is alike.

    `cutoff` is how much they have in common at least, 0 to 1. With `fold`, upper and lower case are the same. A `prefix` that all have
    is not compared: it would make every two of them alike.

    >>> nearest("gup", ["gpu", "cpu"]), nearest("nodename", ["NodeName"], fold=True), nearest("x", ["gpu"])
    ('gpu', 'NodeName', '')
    """
    from difflib import get_close_matches  # few runs have a mistake, and every program of a node imports this module

    names = {(name.lower() if fold else name)[len(prefix) :]: name for name in known}
    found = get_close_matches((word.lower() if fold else word)[len(prefix) :], names, n=1, cutoff=cutoff)
    return names[found[0]] if found else ""


def did_you_mean(
    word: str,
    known: Iterable[str],
    *,
    lead: str = " Did",
    quoted: bool = True,
    fold: bool = False,
    prefix: str = "",
    otherwise: str = "",
) -> str:
    """Return the question whether the nearest known word is meant, or what to say otherwise; `lead` is how the question begins.

    >>> did_you_mean("gup", ["gpu", "cpu"]), did_you_mean("gup", ["gpu"], lead="; did", quoted=False), did_you_mean("x", ["gpu"])
    (" Did you mean 'gpu'?", '; did you mean gpu?', '')
    """
    found = nearest(word, known, fold=fold, prefix=prefix)
    return f"{lead} you mean {repr(found) if quoted else found}?" if found else otherwise
