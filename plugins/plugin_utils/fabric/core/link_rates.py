# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates of links: the planned one of each, whether another is lower, and a lower rate that is common to nearly all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .fabric_model import Link, Plan

# Width and speed of a lane, such as ("4x", "NDR").
Rate = tuple[str, str]

# In Gbit/s per lane; an unknown name is not compared.
SPEEDS = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10.3, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
# Trade names of speeds, each with the lanes that it means.
TRADE_NAMES: dict[str, Rate] = {"HDR100": ("2x", "HDR"), "NDR200": ("2x", "NDR")}
# Gbit/s of Ethernet links, as rates that a plan can state.
_ETHERNET: dict[float, Rate] = {
    10: ("1x", "QDR"), 25: ("1x", "EDR"), 40: ("4x", "QDR"), 50: ("2x", "EDR"), 100: ("4x", "EDR"), 200: ("4x", "HDR"),
    400: ("4x", "NDR"), 800: ("4x", "XDR"),
}  # fmt: skip
# Lanes of a link without a stated width.
USUAL_WIDTH = "4x"
# Number and share of links with one rate above which cables are not the reason.
_MANY, _NEARLY_ALL = 8, 0.9


def ethernet_gbits(rate: Rate) -> float:
    """Return the speed of an Ethernet link, ("", "100G"), in Gbit/s; 0 for other rates. LLDP reports no lanes."""
    number = rate[1][:-1]
    return float(number) if not rate[0] and rate[1].endswith("G") and number.replace(".", "", 1).isdecimal() else 0


def rate_of(plan: Plan, link: Link) -> Rate:
    """Return the planned width and speed of a link."""
    return link.width or plan.width, link.speed or plan.speed


def named_rate(seen: Rate) -> Rate | None:
    """Return a seen rate as a plan can state it; None if it is unknown.

    >>> named_rate(("2x", "HDR")), named_rate(("", "100G")), named_rate(("4x", "???"))
    (('2x', 'HDR'), ('4x', 'EDR'), None)
    """
    if gbits := ethernet_gbits(seen):
        return _ETHERNET.get(gbits)
    return seen if seen[1] in SPEEDS and seen[0].rstrip("x").isdigit() else None


def shown_rate(planned: Rate, seen: Rate) -> str:
    """Return a planned rate as a seen one is written: 2xNDR, or 200G of Ethernet, whose ports report no lanes."""
    return f"{total_gbits(planned):g}G" if ethernet_gbits(seen) else "".join(planned)


def total_gbits(rate: Rate) -> float:
    """Return the speed of all lanes in Gbit/s, 0 if it is unknown.

    >>> total_gbits(("4x", "NDR")), total_gbits(("", "100G"))
    (400, 100.0)
    """
    lanes = rate[0].rstrip("x")
    return ethernet_gbits(rate) or (int(lanes) * SPEEDS.get(rate[1], 0) if lanes.isdigit() else 0)


def is_slower(rate: Rate, wanted: Rate) -> bool:
    """Return whether a width and speed are below the planned ones; unknown ones are not.

    >>> is_slower(("2x", "HDR"), ("4x", "HDR")), is_slower(("4x", "EDR"), ("2x", "HDR")), is_slower(("2x", "???"), ("4x", "NDR"))
    (True, False, True)
    """
    if rate == wanted:
        return False
    gbits, planned = total_gbits(rate), total_gbits(wanted)
    if gbits and planned:
        return gbits < planned
    lanes, most = rate[0].rstrip("x"), wanted[0].rstrip("x")
    return lanes.isdigit() and most.isdigit() and int(lanes) < int(most)


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
