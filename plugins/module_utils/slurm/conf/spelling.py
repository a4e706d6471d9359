# SPDX-License-Identifier: GPL-3.0-or-later
"""Normalise values of slurm.conf and scontrol, so that they can be compared."""

from __future__ import annotations

import re
from collections.abc import Callable

_TRUE, _FALSE = {"yes", "true", "up", "1"}, {"no", "false", "down", "0"}
_ENDLESS = {"unlimited", "infinite", "-1"}
_NOTHING = {"", "(null)", "n/a", "none"}
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<fields>\d+(?::\d+){0,2})\Z")


def folded(text: str) -> str:
    """Return a word in lower case; values for "nothing" become "".

    >>> folded("N/A"), folded("Up")
    ('', 'up')
    """
    plain = text.strip().lower()
    return "" if plain in _NOTHING else plain


def number(text: str) -> str:
    """Return a number without its unit.

    >>> number("2000 usec"), number("INFINITE"), number("030")
    ('2000', 'unlimited', '30')
    """
    plain = folded(text)
    if plain in _ENDLESS:
        return "unlimited"
    head = plain.split(" ")[0]
    return str(int(head)) if head.isdecimal() else plain


def boolean(text: str) -> str:
    """Return yes or no.

    >>> boolean("TRUE"), boolean("NO")
    ('yes', 'no')
    """
    plain = text.strip().lower()
    return "yes" if plain in _TRUE else "no" if plain in _FALSE else plain


def time(text: str) -> str:
    """Return a time in minutes, rounded up as Slurm does.

    >>> time("1-00:00:00"), time("90"), time("1-2"), time("00:00:30"), time("infinite"), time("NONE")
    ('1440', '90', '1560', '1', 'unlimited', '')
    """
    plain = folded(text)
    if plain in _ENDLESS:
        return "unlimited"
    match = _TIME.match(plain)
    if not match:
        return plain
    fields = [int(field) for field in match["fields"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = [*fields, 0, 0][:3]
        hours += 24 * int(match["days"])
    elif len(fields) == 3:
        hours, minutes, seconds = fields
    else:
        hours, (minutes, seconds) = 0, [*fields, 0][:2]
    return str(hours * 60 + minutes + (seconds > 0) * ((seconds + 59) // 60))


def folded_list(text: str) -> str:
    """Return a list sorted and in lower case.

    >>> folded_list("b,A"), folded_list("(null)")
    ('a,b', '')
    """
    return ",".join(sorted({folded(one) for one in text.split(",")} - {""}))


FORMS: dict[str, Callable[[str], str]] = {
    "word": folded,
    "number": number,
    "boolean": boolean,
    "time": time,
    "list": folded_list,
}
"""Type -> function that normalises a value."""
