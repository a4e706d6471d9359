# SPDX-License-Identifier: GPL-3.0-or-later
"""Order of package versions, as dpkg and rpm have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cmp_to_key
from itertools import zip_longest

_PARTS = re.compile(r"([^0-9]*)([0-9]*)")
_RPM_PARTS = re.compile(r"[0-9]+|[A-Za-z]+|~|\^")


def newest_first(family: str, versions: Iterable[str]) -> list[str]:
    """Return versions once each, the newest first; `family` is deb or rpm.

    >>> newest_first("deb", ["1.9-1", "1.10-1", "1:0.1-1", "1.10~rc1-1"])
    ['1:0.1-1', '1.10-1', '1.10~rc1-1', '1.9-1']
    """
    compare = compare_rpm if family == "rpm" else compare_deb
    # The text decides between versions that are equal, such as 1.0 and 1.00.
    return sorted(sorted(set(versions)), key=cmp_to_key(compare), reverse=True)


def compare_deb(one: str, other: str) -> int:
    """Return a number below, at or above 0, as deb-version(7) orders two versions: epoch, upstream version, revision."""
    return _by_parts(one, other, _compare_deb_text)


def compare_rpm(one: str, other: str) -> int:
    """Return a number below, at or above 0, as rpm orders two versions: epoch:version-release."""
    return _by_parts(one, other, _compare_rpm_text)


def _by_parts(one: str, other: str, compare: Callable[[str, str], int]) -> int:
    (epoch, upstream, revision), (epoch_2, upstream_2, revision_2) = _split(one), _split(other)
    if epoch != epoch_2:
        return epoch - epoch_2
    return compare(upstream, upstream_2) or compare(revision, revision_2)


def _split(version: str) -> tuple[int, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon or not epoch.isdecimal():
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    return int(epoch), upstream if dash else rest, revision if dash else ""


def _compare_deb_text(one: str, other: str) -> int:
    pairs = zip_longest(_PARTS.findall(one), _PARTS.findall(other), fillvalue=("", ""))
    for (text, number), (text_2, number_2) in pairs:
        weights = zip_longest(map(_weight, text), map(_weight, text_2), fillvalue=0)
        found = next((left - right for left, right in weights if left != right), 0)
        found = found or int(number or 0) - int(number_2 or 0)
        if found:
            return found
    return 0


def _weight(character: str) -> int:
    """Return the weight of a character other than a digit: ~ sorts before the end of the text, letters before all others."""
    if character == "~":
        return -1
    return ord(character) + (0 if character.isalpha() else 256)


def _compare_rpm_text(one: str, other: str) -> int:
    for left, right in zip_longest(_RPM_PARTS.findall(one), _RPM_PARTS.findall(other), fillvalue=""):
        if left == right:
            continue
        # ~ sorts before the end of the text, ^ after it and before all else.
        for mark, end in (("~", 1), ("^", 1)):
            if mark in (left, right):
                if mark == "^" and "" in (left, right):
                    return 1 if left == mark else -1
                return -end if left == mark else end
        if left.isdigit() and right.isdigit():
            if int(left) != int(right):
                return int(left) - int(right)
        elif left.isdigit() or right.isdigit():
            # What goes on is newer, and a number is newer than letters.
            return 1 if left.isdigit() or right == "" else -1
        elif left == "" or right == "":
            return 1 if right == "" else -1
        else:
            return 1 if left > right else -1
    return 0
