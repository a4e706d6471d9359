# SPDX-License-Identifier: GPL-3.0-or-later
"""The one rule of versions, with versions as BMCs report them."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.firmware_versions import (
    compare,
    why_unknown,
)

ORDERS = [
    ("2.4.1", "2.4.1", "equal"),
    (" 2.4.1 ", "2.4.1", "equal"),
    ("2.4.1", "2.10.0", "older"),
    ("7.10.70.00", "7.10.30.00", "newer"),
    ("01.03.19", "1.3.19", "equal"),
    ("v1.2", "1.2", "equal"),
    ("40.45.3048", "40.46.1006", "older"),
    ("U58 v2.44 (01/17/2025)", "U58 v2.50 (06/01/2025)", "older"),
    ("U58 v2.44 (01/17/2025)", "A56 v2.50 (06/01/2025)", "unknown"),
    ("U58 v2.44 (01/17/2025)", "U58 v2.44 (02/01/2025)", "unknown"),
    ("U58 v2.44 (01/17/2025)", "U58 v2.44", "unknown"),
    ("1.66 Dec 13 2024", "1.70 Apr 02 2025", "older"),
    ("1.66 Dec 13 2024", "1.66 Apr 02 2024", "unknown"),
    ("GB200Nvl-25.07-7", "GB200Nvl-25.08-1", "older"),
    ("GB200Nvl-25.07-7", "25.08-1", "unknown"),
    ("01.04.0031.0000_n04", "70.01.00.09", "unknown"),
    ("QGE142M-5.11", "QGE144N-5.20", "unknown"),
    ("97.10.3E.00.05", "97.10.4A.00.01", "unknown"),
    ("97.10.3E.00.05", "97.11.00.00.01", "older"),
    ("97.10.3E.00.05", "97.10.3e.00.06", "older"),
    ("2.1b", "2.1b", "equal"),
    ("2.1a", "2.1b", "unknown"),
    ("0a", "0b", "unknown"),
    ("0x16", "0x17", "unknown"),
    ("2.20", "2.20.1", "unknown"),
    ("2.20", "2.21.1", "unknown"),
    ("", "1.0", "unknown"),
    ("", "", "unknown"),
    ("", "*", "unknown"),
    ("7.10.70.00", "7.10.*", "equal"),
    ("7.20.10.00", "7.10.*", "unknown"),
    ("F1.02.06", "F1.02.06", "equal"),
    ("F1.02.06", "f1.02.07", "older"),
]


@pytest.mark.parametrize(("found", "desired", "order"), ORDERS)
def test_order(found: str, desired: str, order: str) -> None:
    assert compare(found, desired) == order
    assert bool(why_unknown(found, desired)) == (order == "unknown")


@pytest.mark.parametrize(("found", "desired", "order"), [one for one in ORDERS if not set("*?") & set(one[1])])
def test_order_is_opposite_the_other_way_round(found: str, desired: str, order: str) -> None:
    opposite = {"older": "newer", "newer": "older"}
    if found and desired:
        assert compare(desired, found) == opposite.get(order, order)
