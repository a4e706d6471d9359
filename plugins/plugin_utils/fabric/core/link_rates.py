# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare widths and speeds of links with the planned ones, and recognise a lower rate that is common to nearly all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

# Width and speed of a lane, such as ("4x", "NDR").
Rate = tuple[str, str]

# In Gbit/s per lane; an unknown name is not compared.
SPEEDS = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10.3, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
# Number and share of links with one rate above which cables are not the reason.
_MANY, _NEARLY_ALL = 8, 0.9


def ethernet_gbits(rate: Rate) -> float:
    """Return the speed of an Ethernet link, ("", "100G"), in Gbit/s; 0 for other rates. LLDP reports no lanes."""
    number = rate[1][:-1]
    return float(number) if not rate[0] and rate[1].endswith("G") and number.replace(".", "", 1).isdecimal() else 0


def total_gbits(wanted: Rate) -> float:
    """Return the speed of all lanes of a planned rate in Gbit/s, 0 if it is unknown.

    >>> total_gbits(("4x", "NDR"))
    400
    """
    return int(wanted[0].rstrip("x")) * SPEEDS.get(wanted[1], 0)


def is_slower(rate: Rate, wanted: Rate) -> bool:
    """Return whether a width and speed are below the planned ones; unknown ones are not."""
    if rate == wanted:
        return False
    if gbits := ethernet_gbits(rate):
        return gbits < total_gbits(wanted)
    lanes, speed = rate[0].rstrip("x"), SPEEDS.get(rate[1])
    if lanes.isdigit() and int(lanes) < int(wanted[0].rstrip("x")):
        return True
    return lanes.isdigit() and speed is not None and wanted[1] in SPEEDS and speed < SPEEDS[wanted[1]]


def is_unreadable(rate: Rate) -> bool:
    """Return whether a rate is unreadable, such as `4x???` from a tool that is older than the speed; LLDP may report none."""
    return (
        rate != ("", "") and not ethernet_gbits(rate) and (not rate[0].rstrip("x").isdigit() or rate[1] not in SPEEDS)
    )


def common_lower_rate(slow: Iterable[Rate], links: int) -> Rate | None:
    """Return a rate below the planned rate, if nearly all links have it, or None.

    >>> common_lower_rate([("4x", "HDR")] * 9, 10), common_lower_rate([("4x", "HDR")] * 9, 11), common_lower_rate([("4x", "HDR")] * 7, 7)
    (('4x', 'HDR'), None, None)
    """
    rate, count = next(iter(Counter(slow).most_common(1)), (("", ""), 0))
    return rate if count >= max(_MANY, _NEARLY_ALL * links) else None
