# SPDX-License-Identifier: GPL-3.0-or-later
"""Define a row of thresholds.json, and refuse a row that could not be judged as its author meant it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Union

from ..facts.health_finding import CLASSES, NOTE

LEVEL, AT_LEAST, EQUALS, DELTA, RATE = KINDS = ("level", "at_least", "equals", "delta", "rate")
NODE, GPU, RAIL, MOUNT, HUGE_PAGE, CHECK = PER = ("node", "gpu", "rail", "mount", "huge_page", "check")
ALWAYS, NEVER, GPUS, NVLINK, RAILS, MOUNTS, HUGE_PAGES = APPLIES = (
    "always",
    "never",
    "gpus",
    "nvlink",
    "rails",
    "mounts",
    "huge_pages",
)
RESET, REBOOT, COUNTER, TIME = CLEARS_BY = ("reset", "reboot", "counter", "time")
INCREASE, STATES = COUNTS = ("increase", "states")
ANY = "any"
PROFILE = "profile."
FROM_PROFILE = ("gpus", "driver", "rails", "huge_pages")
UNIT_SECONDS = {"1/s": 1, "1/min": 60, "1/h": 3600}
_MOST_DEBOUNCE = 60
_MOST_WINDOW = 24 * 3600

Limit = Union[int, float, str, None]


class ThresholdError(ValueError):
    """A row, or a site's change of a row, that cannot be judged. The text names the quantity and the key."""


@dataclass(frozen=True)
class ThresholdRow:
    """Hold one row. `name` is the id of the check, `reads` the quantity of its readings. The head of thresholds.json explains each key.

    `warn`, `critical`: None judges nothing. `window` in seconds, `debounce` in samples.
    """

    name: str
    about: str
    kind: str
    per: str
    applies: str
    reads: str = ""
    unit: str = ""
    warn: Limit = None
    critical: Limit = None
    window: float = 0
    since_reset: bool = False
    counts: str = INCREASE
    persistent: bool = False
    falls_at_reset: bool = False
    debounce: int = 1
    class_warn: str = NOTE
    class_critical: str = NOTE
    at_most: str = CLASSES[0]
    clears_by: str = TIME
    quiet: bool = False
    optional: bool = False
    remedy: str = ""
    source: str = ""
    verified: bool = False

    @property
    def is_sticky(self) -> bool:
        """Return whether a critical finding stays until a reset, a reboot or a smaller counter."""
        return self.clears_by != TIME

    @property
    def per_second(self) -> float:
        """Return the seconds in the unit of a rate."""
        return UNIT_SECONDS[self.unit]


_LIMITS = (int, float, str, type(None))
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "Limit": _LIMITS,
}
_WORDS = {
    "kind": KINDS,
    "per": PER,
    "applies": APPLIES,
    "counts": COUNTS,
    "class_warn": CLASSES,
    "class_critical": CLASSES,
    "at_most": CLASSES,
    "clears_by": CLEARS_BY,
}
KEYS = {field.name: _TYPES[str(field.type)] for field in fields(ThresholdRow)}


def checked_values(name: str, values: Mapping[str, Any], allowed: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """Return keys of a row. ThresholdError: a key that is not allowed, a wrong type, an unknown word, a number that is not finite."""
    for key, value in values.items():
        if key not in allowed:
            raise ThresholdError(f"threshold {name}: unknown key {key!r}; allowed: {', '.join(sorted(allowed))}")
        kinds = allowed[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ThresholdError(f"threshold {name}: {key} is {_shown(value)}; allowed: {_names(kinds)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ThresholdError(f"threshold {name}: {key} is {value!r}; allowed: a finite number")
        if key in _WORDS and value not in _WORDS[key]:
            raise ThresholdError(f"threshold {name}: {key} is {value!r}; allowed: {', '.join(_WORDS[key])}")
    return dict(values)


def checked_row(row: ThresholdRow) -> ThresholdRow:
    """Return the row. ThresholdError: its keys contradict each other."""
    for holds, problem in _RULES:
        if not holds(row):
            words = {"limits": _LIMITS_OF[row.kind], "warn": _shown(row.warn), "critical": _shown(row.critical)}
            raise ThresholdError(f"threshold {row.name}: {problem.format(row=row, **words)}")
    return row


def _shown(value: Any) -> str:
    """Return a value as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value) if isinstance(value, str) else str(value)


def _names(kinds: tuple[type, ...]) -> str:
    """Return the types as YAML has them."""
    listed = [kind for kind in kinds if kind is not int or float not in kinds]
    return " or ".join(_TYPE_NAMES[kind] for kind in listed)


def _has_legal_limits(row: ThresholdRow) -> bool:
    return all(_is_legal(row, limit) for limit in (row.warn, row.critical))


def _is_legal(row: ThresholdRow, limit: Limit) -> bool:
    if isinstance(limit, str):
        known = not limit.startswith(PROFILE) or limit[len(PROFILE) :] in FROM_PROFILE
        return bool(limit) and known and (row.kind == EQUALS or (row.kind == AT_LEAST and limit.startswith(PROFILE)))
    return limit is None or row.kind in (EQUALS, AT_LEAST, LEVEL) or limit > 0


def _has_ordered_limits(row: ThresholdRow) -> bool:
    """A critical value is at least as bad as a value that warns, so no reading is critical without being a warning."""
    low, high = row.warn, row.critical
    if row.kind == EQUALS or isinstance(low, str) or isinstance(high, str) or low is None or high is None:
        return True
    return low >= high if row.kind == AT_LEAST else low <= high


def _is_within_worst(row: ThresholdRow) -> bool:
    worst = CLASSES.index(row.at_most)
    return CLASSES.index(row.class_warn) >= worst and CLASSES.index(row.class_critical) >= worst


_TYPE_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    type(None): "null",
}
_WORDS_OF_PROFILE = ", ".join(f"{PROFILE}{one}" for one in FROM_PROFILE)
_LIMITS_OF = {
    LEVEL: "a number or null",
    AT_LEAST: f"a number, {_WORDS_OF_PROFILE} or null",
    EQUALS: f"a number, a word, {_WORDS_OF_PROFILE} or null",
    DELTA: "a number above 0 or null",
    RATE: "a number above 0 or null",
}
_RULES: tuple[tuple[Callable[[ThresholdRow], bool], str], ...] = (
    (_has_legal_limits, "warn is {warn}, critical {critical}; allowed for {row.kind}: {limits}"),
    (
        _has_ordered_limits,
        "warn is {row.warn}, critical {row.critical}; allowed: a critical that is at least as bad as warn ({row.kind})",
    ),
    (
        _is_within_worst,
        "class_warn is {row.class_warn}, class_critical {row.class_critical}; allowed: {row.at_most} at most",
    ),
    (
        lambda row: CLASSES.index(row.class_critical) <= CLASSES.index(row.class_warn) or row.critical is None,
        "class_warn is {row.class_warn}, class_critical {row.class_critical}; allowed: a class_critical at least as bad as class_warn",
    ),
    (
        lambda row: row.kind not in (DELTA, RATE) or 0 < row.window <= _MOST_WINDOW,
        f"window is {{row.window}}; allowed: 1 to {_MOST_WINDOW} s",
    ),
    (
        lambda row: row.kind != RATE or row.unit in UNIT_SECONDS,
        f"unit is {{row.unit!r}}; allowed for a rate: {', '.join(UNIT_SECONDS)}",
    ),
    (
        lambda row: 1 <= row.debounce <= _MOST_DEBOUNCE,
        f"debounce is {{row.debounce}}; allowed: 1 to {_MOST_DEBOUNCE} samples",
    ),
    (
        lambda row: row.kind not in (DELTA, RATE) or row.debounce == 1,
        "debounce is {row.debounce}; allowed for a {row.kind}: 1",
    ),
    (lambda row: row.counts == INCREASE or row.kind == RATE, "counts=states needs the kind `rate`"),
    (lambda row: not row.since_reset or row.kind == DELTA, "since_reset needs the kind `delta`"),
)
