# SPDX-License-Identifier: GPL-3.0-or-later
"""Check `gpus.settings` of a profile against what its GPUs take. The one reader of gpu_settings.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

Settings = Mapping[str, Any]
"""Keys of the schema's `gpus.settings`; watts, MHz, a boolean and the compute mode. A key that is not set is missing."""

_LEAST, _MOST = "graphics_clock_min_mhz", "graphics_clock_max_mhz"
_UNITS = {"power_limit_watts": "W", _LEAST: "MHz", _MOST: "MHz", "memory_clock_mhz": "MHz"}
# Both ends of the graphics clock have one range.
_ROWS = {_LEAST: "graphics_clock_mhz", _MOST: "graphics_clock_mhz"}


@lru_cache(maxsize=1)
def ranges() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of gpu_settings.json by model."""
    models: dict[str, dict[str, Any]] = json.loads(
        Path(__file__).with_name("gpu_settings.json").read_text(encoding="utf-8")
    )["models"]
    return models


def stated(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a cluster file states: a key without a value is not managed."""
    return {key: value for key, value in data.items() if value is not None}


def mistakes(model: str, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield (key, text) for each value that no GPU of this model takes."""
    rows = ranges().get(model, {})
    for key, unit in _UNITS.items():
        value, row = settings.get(key), rows.get(_ROWS.get(key, key))
        if value is not None and row and not row[0] <= value <= row[1]:
            yield key, f"{value} {unit} is not a value of {model}. Allowed: {row[0]} to {row[1]}."
    least, most = settings.get(_LEAST), settings.get(_MOST)
    if least is not None and most is None:
        yield _LEAST, f"the driver locks a range: state {_MOST} as well."
    elif least is not None and least > most:
        yield _LEAST, f"{least} is more than {_MOST}, which is {most}. Allowed: at most {most}."
