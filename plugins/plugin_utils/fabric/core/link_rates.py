# SPDX-License-Identifier: GPL-3.0-or-later
"""Widths and speeds of links: which is below the planned one, and whether so many have one and the same that it is no matter of cables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

# Width and speed of a lane, such as ("4x", "NDR").
Rate = tuple[str, str]

# In Gbit/s a lane; what is not here is not compared.
SPEEDS = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10.3, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
# So many links, and so much of all, that no cable is the reason.
_MANY, _NEARLY_ALL = 8, 0.9


def is_slower(rate: Rate, wanted: Rate) -> bool:
    """Tell whether a width and speed are below the planned ones; what is not known is not."""
    if rate == wanted:
        return False
    lanes, speed = rate[0].rstrip("x"), SPEEDS.get(rate[1])
    if lanes.isdigit() and int(lanes) < int(wanted[0].rstrip("x")):
        return True
    return lanes.isdigit() and speed is not None and wanted[1] in SPEEDS and speed < SPEEDS[wanted[1]]


def is_unreadable(rate: Rate) -> bool:
    """Tell whether a rate was told and says nothing, as `4x???` of a tool that is older than the speed; LLDP tells none."""
    return rate != ("", "") and (not rate[0].rstrip("x").isdigit() or rate[1] not in SPEEDS)


def common_lower_rate(slow: Iterable[Rate], links: int) -> Rate | None:
    """Return the rate below the planned one that nearly all of the links have; None where there is none.

    >>> common_lower_rate([("4x", "HDR")] * 9, 10), common_lower_rate([("4x", "HDR")] * 9, 11), common_lower_rate([("4x", "HDR")] * 7, 7)
    (('4x', 'HDR'), None, None)
    """
    rate, count = next(iter(Counter(slow).most_common(1)), (("", ""), 0))
    return rate if count >= max(_MANY, _NEARLY_ALL * links) else None
