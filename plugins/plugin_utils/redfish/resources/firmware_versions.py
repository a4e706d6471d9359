# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare versions of firmware by one rule; where it does not reach, the versions have no order.

The rule. A version is cut into fields at `.`, `-`, `_`, `:`, `/` and blanks. Letter case and a `v` before a number do not count. Two
versions with different numbers of fields have no order: they can be of different schemes. Otherwise fields are compared from left to
right, and the first pair that differs decides, if both are decimal numbers. Fields with letters (`0a`, `3E`, `b12`) have no order:
whether they are hexadecimal, a build or a board is not written in them. Text from the first bracket on, such as a date, is compared for
equality only. Without an order the result is `unknown`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

EQUAL, OLDER, NEWER, UNKNOWN = "equal", "older", "newer", "unknown"
_CUTS = re.compile(r"[.\-_\s:/,]+")
_PATTERN_SIGNS = "*?"


def fields(version: str) -> tuple[str, ...]:
    """Return the fields of a version, without text in brackets.

    >>> fields("U58 v2.44 (01/17/2025)"), fields("GB200Nvl-25.07-7")
    (('u58', '2', '44'), ('gb200nvl', '25', '07', '7'))
    """
    found = [one for one in _CUTS.split(re.split(r"[(\[]", version, maxsplit=1)[0].strip().lower()) if one]
    return tuple(one[1:] if re.fullmatch(r"v\d+", one) else one for one in found)


def compare(found: str, desired: str) -> str:
    """Return the order of a version and the desired one: equal, older, newer, or unknown if the rule of this module does not reach.

    `desired` with `*` or `?` is a shell pattern: equal if it matches, else unknown, because a pattern has no order.

    >>> compare("2.19.1", "2.20.0"), compare("1.10", "1.9"), compare("2.1b", "2.1b"), compare("2.1a", "2.1b"), compare("7.10", "7.*")
    ('older', 'newer', 'equal', 'unknown', 'equal')
    """
    return _compared(found.strip(), desired.strip())[0]


def why_unknown(found: str, desired: str) -> str:
    """Return why two versions have no order, in words; "" if they have one.

    >>> why_unknown("2.1a", "2.1b"), why_unknown("2.20", "2.20.1")
    ("'1a' and '1b' have no order", 'one has 2 fields, the other 3')
    """
    return _compared(found.strip(), desired.strip())[1]


def _compared(found: str, desired: str) -> tuple[str, str]:
    if not found:
        return UNKNOWN, "the BMC reports no version"
    if found == desired:
        return EQUAL, ""
    if any(sign in desired for sign in _PATTERN_SIGNS):
        return (EQUAL, "") if fnmatchcase(found, desired) else (UNKNOWN, "a pattern has no order")
    have, want = fields(found), fields(desired)
    if len(have) != len(want):
        return UNKNOWN, f"one has {len(have)} fields, the other {len(want)}"
    for one, other in zip(have, want, strict=True):
        if one.isdecimal() and other.isdecimal():
            if int(one) != int(other):
                return (OLDER if int(one) < int(other) else NEWER), ""
        elif one != other:
            return UNKNOWN, f"{one!r} and {other!r} have no order"
    if _brackets(found) != _brackets(desired):
        return UNKNOWN, "text in brackets has no order"
    return EQUAL, ""


def _brackets(version: str) -> str:
    return " ".join(re.findall(r"[(\[].*", version)).lower()
