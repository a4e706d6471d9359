# SPDX-License-Identifier: GPL-3.0-or-later
"""The one reader of thresholds.json: default row, then the row of the GPU model, then the site's changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..facts.health_finding import CLASSES
from ..facts.node_facts import NodeProfile
from .threshold_row import KEYS, ThresholdError, ThresholdRow, checked_row, checked_values

SITE_KEYS = ("warn", "critical", "window", "debounce", "class_warn", "class_critical", "applies", "quiet", "optional")
"""Keys of a row that a site may change."""
_SITE = {key: KEYS[key] for key in SITE_KEYS}
_MODEL = {**_SITE, "names": (list,), "from": (str,), "verified": (bool,)}
_FILE = {
    **{key: kind for key, kind in KEYS.items() if key not in ("name", "source")},
    "from": (str,),
    "models": (list,),
}
_BAD_DRIVER = {
    "version": (str,),
    "after_days": (int, float),
    "class": (str,),
    "found": (str,),
    "remedy": (str,),
    "from": (str,),
    "verified": (bool,),
}


@dataclass(frozen=True)
class KnownBadDriver:
    """Hold a version of the driver with a known defect; it shows after `after_days` of uptime."""

    version: str
    after_days: float
    health_class: str
    found: str
    remedy: str
    source: str
    verified: bool


@dataclass(frozen=True)
class ThresholdTable:
    """Hold the whole file. `models`: check -> GPU model -> the keys that the model changes."""

    rows: Mapping[str, ThresholdRow]
    models: Mapping[str, Mapping[str, Mapping[str, Any]]]
    known_bad_drivers: tuple[KnownBadDriver, ...]

    @property
    def quantities(self) -> frozenset[str]:
        """Return the names of all readings that a row judges."""
        return frozenset(row.reads for row in self.rows.values())

    def of_model(self, model: str) -> dict[str, ThresholdRow]:
        """Return the rows of a GPU model; an unknown model has the default rows."""
        return {
            name: checked_row(replace(row, **self.models.get(name, {}).get(model.lower(), {})))
            for name, row in self.rows.items()
        }


@lru_cache(maxsize=1)
def default() -> ThresholdTable:
    """Return bedplate's own table, read once."""
    return build(json.loads(Path(__file__).with_name("thresholds.json").read_text(encoding="utf-8")))


def build(data: Mapping[str, Any]) -> ThresholdTable:
    """Return the table that plain data holds. ThresholdError: a row, a key or a value that is not allowed."""
    rows, models = {}, {}
    for name, values in data["rows"].items():
        row = checked_values(name, values, _FILE)
        models[name] = _models(name, row.pop("models", []))
        source = row.pop("from", "")
        if not source:
            raise ThresholdError(f"threshold {name}: no `from`; every row names its source")
        rows[name] = checked_row(ThresholdRow(**{"reads": name, **row, "name": name, "source": source}))
    table = ThresholdTable(rows, models, tuple(_bad_driver(one) for one in data["known_bad_drivers"]))
    for model in {model for changes in models.values() for model in changes}:
        table.of_model(model)
    return table


def rows_for(profile: NodeProfile, table: ThresholdTable | None = None) -> Mapping[str, ThresholdRow]:
    """Return check -> row for a node. ThresholdError: a site's change of an unknown check, of another key, or of a wrong type."""
    rows = _default_rows(profile.model.lower()) if table is None else table.of_model(profile.model)
    if not profile.thresholds:
        return rows
    merged = dict(rows)
    for name, changes in profile.thresholds.items():
        if name not in rows:
            raise ThresholdError(f"threshold {name!r} is unknown; allowed: {', '.join(sorted(rows))}")
        if not isinstance(changes, Mapping):
            raise ThresholdError(f"threshold {name}: {changes!r} is not a mapping of keys")
        merged[name] = checked_row(replace(rows[name], **checked_values(name, changes, _SITE)))
    return merged


def check_site_key(name: str, key: str, value: Any) -> None:
    """Check a key that a site gives to a row. ThresholdError: a key that a site cannot change, a wrong type or an unknown word."""
    checked_values(name, {key: value}, _SITE)


@lru_cache(maxsize=64)
def _default_rows(model: str) -> Mapping[str, ThresholdRow]:
    return default().of_model(model)


def _models(name: str, rows: list[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for values in rows:
        row = checked_values(name, values, _MODEL)
        models, source = row.pop("names", []), row.pop("from", "")
        if not models or not source or "verified" not in row:
            raise ThresholdError(f"threshold {name}: a row of models needs names, from and verified")
        for model in models:
            if model in found:
                raise ThresholdError(f"threshold {name}: model {model} has two rows")
            found[model] = {**row, "source": source}
    return found


def _bad_driver(values: Mapping[str, Any]) -> KnownBadDriver:
    row = checked_values("known_bad_drivers", values, _BAD_DRIVER)
    if set(row) != set(_BAD_DRIVER) or row["class"] not in CLASSES or row["after_days"] < 0:
        raise ThresholdError(f"known_bad_drivers: {row!r} lacks a key, has an unknown class or a negative age")
    return KnownBadDriver(
        row["version"], row["after_days"], row["class"], row["found"], row["remedy"], row["from"], row["verified"]
    )
