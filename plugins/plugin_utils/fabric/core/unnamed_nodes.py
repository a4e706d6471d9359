# SPDX-License-Identifier: GPL-3.0-or-later
"""Names for nodes without a usable name: their GUID. The host of an adapter without a name is not guessed."""

from __future__ import annotations

import re

_NAME = re.compile(r"unnamed-([0-9a-f]{16})\Z")
# The device of an HCA whose host is not known.
DEVICE = "hca"


def unnamed(guid: str) -> str:
    """Return the name of a node, from its GUID of 16 hex digits.

    >>> unnamed("0002c90300a10001"), guid_in_name("unnamed-0002c90300a10001"), guid_in_name("leaf-1")
    ('unnamed-0002c90300a10001', '0002c90300a10001', '')
    """
    return f"unnamed-{guid}"


def guid_in_name(name: str) -> str:
    """Return the GUID in the name of a node without another one, or of its HCA; "" in any other name."""
    match = _NAME.match(name.partition(" ")[0])
    return match[1] if match else ""
