# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the body of a PATCH of BIOS settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_APPLY_TIME_TYPE = "#Settings.v1_1_0.PreferredApplyTime"


def settings_body(attributes: Mapping[str, Any], apply_time: str) -> dict[str, Any]:
    """Return the body that sets attributes; `apply_time` is that of the dialect, "" without one.

    >>> settings_body({"SriovEnable": "Enabled"}, "")
    {'Attributes': {'SriovEnable': 'Enabled'}}
    """
    preferred = {"@Redfish.SettingsApplyTime": {"@odata.type": _APPLY_TIME_TYPE, "ApplyTime": apply_time}}
    return {"Attributes": dict(attributes), **(preferred if apply_time else {})}
