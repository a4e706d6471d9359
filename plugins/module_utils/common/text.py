# SPDX-License-Identifier: GPL-3.0-or-later
"""Format text for operators: short lists, name patterns, and suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def few(names: Iterable[str], most: int = 6) -> str:
    """Return the first names as text, and the number of the remaining ones.

    >>> few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name equals one of these names or matches one of these shell patterns.

    >>> matches_any("libcublas-12-9", ["munge", "*-12-9"]), matches_any("Munge", ["munge"])
    (True, False)
    """
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6, fold: bool = False, prefix: str = "") -> str:
    """Return the known word that is most similar to this one, "" if all differ too much.

    `cutoff` is the minimum similarity, 0 to 1. With `fold`, case is ignored. A `prefix` that all words share is not compared: it would make
    any two of them similar.

    >>> nearest("gup", ["gpu", "cpu"]), nearest("nodename", ["NodeName"], fold=True), nearest("x", ["gpu"])
    ('gpu', 'NodeName', '')
    """
    from difflib import get_close_matches  # few runs have a mistake, but every program on a node imports this module

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
    """Return the question "Did you mean ...?" with the nearest known word, or `otherwise`; `lead` begins the question.

    >>> did_you_mean("gup", ["gpu", "cpu"]), did_you_mean("gup", ["gpu"], lead="; did", quoted=False), did_you_mean("x", ["gpu"])
    (" Did you mean 'gpu'?", '; did you mean gpu?', '')
    """
    found = nearest(word, known, fold=fold, prefix=prefix)
    return f"{lead} you mean {repr(found) if quoted else found}?" if found else otherwise
