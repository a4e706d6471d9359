# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the names in NodeDescriptions."""

from __future__ import annotations

import re

# NodeDescription of a managed switch: MF0;name:MQM9700/U1.
_MANAGED = re.compile(r"MF\d+;([^:;]*):[^/]*(?:/U(\d+))?\Z")
_UNNAMED = re.compile(r"(?:MT\d+ .*|.*Mellanox Technologies.*|(?:localhost|ubuntu|debian|nodename)\b.*|)\Z", re.DOTALL)
# NodeDescription of SHARP's node inside a switch; what all of its forms have in common.
AGGREGATION = "Mellanox Technologies Aggregation Node"
_AGGREGATION = "Aggregation Node"
_NUMBERS = re.compile(r"(\d+)")


def plain_name(description: str) -> str:
    """Return the name in a switch's or an HCA's NodeDescription.

    >>> plain_name("MF0;leaf-03:MQM9700/U1"), plain_name("gpu01.example.com mlx5_0"), plain_name("gpu01 HCA-1")
    ('leaf-03', 'gpu01 mlx5_0', 'gpu01 HCA-1')
    """
    if match := _MANAGED.match(description):
        return match[1]
    host, blank, device = description.strip().partition(" ")
    return f"{host.split('.')[0]}{blank}{device.strip()}" if blank else description.strip()


def switch_names(description: str) -> list[str]:
    """Return the possible names in the plan for a switch with this description, the likeliest first.

    >>> switch_names("MF0;core-1:MQM9701/U2"), switch_names("leaf-3.example.com")
    (['core-1/U2', 'core-1-U2', 'core-1'], ['leaf-3.example.com', 'leaf-3'])
    """
    if match := _MANAGED.match(description):
        return [f"{match[1]}/U{match[2]}", f"{match[1]}-U{match[2]}", match[1]] if match[2] else [match[1]]
    name = description.strip()
    return list(dict.fromkeys((name, name.split(".")[0])))


def is_unnamed(description: str) -> bool:
    """Return whether a description is the default of a node that was not named."""
    return bool(_UNNAMED.match(description.strip()))


def is_aggregation(description: str) -> bool:
    """Return whether this is SHARP's node inside a switch, which is not a host."""
    return _AGGREGATION in description


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts numbers by their value: mlx5_9 before mlx5_10."""
    parts = _NUMBERS.split(text)
    return tuple((int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts)
