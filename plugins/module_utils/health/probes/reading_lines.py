# SPDX-License-Identifier: GPL-3.0-or-later
"""Write readings as JSON lines, and parse them so that no output of a probe becomes a value by mistake.

    {"q": "pcie-width", "d": "0000:3b:00.0", "v": 16, "s": "nvml", "p": ""}
    {"end": 1}

The last line has the number of readings. Without it the output was cut, so the probe's quantities count as unread.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Union

from ..facts.node_facts import Reading

NOT_SUPPORTED = "not supported"
"""Start of `Reading.problem` where the device or the driver does not have the quantity: the next cycle cannot read it either."""
OUTPUT = "probe-output"
"""Quantity of a line that is not a reading; its value is always None."""
_QUANTITY = re.compile(r"[a-z0-9][a-z0-9-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")
_LONGEST, _LINES, _DEVICE, _TEXT = 1 << 20, 8192, 256, 200
_KEYS = {"q", "d", "v", "s", "p"}
_WHOLE = 1 << 64


class Problem(str):
    """Text that replaces a value that was not read."""

    __slots__ = ()


Answer = Union[int, float, str, Problem]


def unread(quantity: str, device: str, source: str, problem: str) -> Reading:
    """Return a reading without a value."""
    return Reading(quantity, device, None, source, one_line(problem) or "not read")


def one_line(text: str) -> str:
    """Return a text of at most 200 printable characters."""
    return "".join(one if one.isprintable() else " " for one in text)[:_TEXT].strip()


def line(reading: Reading) -> str:
    """Return the JSON line of a reading, with its line break."""
    data = {"q": reading.quantity, "d": reading.device, "v": reading.value, "s": reading.source, "p": reading.problem}
    return json.dumps(data, separators=(",", ":")) + "\n"


def end(count: int) -> str:
    """Return the last line of a probe that wrote `count` readings."""
    return f'{{"end":{count}}}\n'


def parse(
    data: bytes,
    quantities: Iterable[str],
    sources: Iterable[str],
    source: str,
    why: str = "the probe's output ends early",
) -> list[Reading]:
    """Return the readings of a probe's output. Raises no exception.

    `quantities` and `sources` are all that the probe may write. A line that is not one of its readings is an unread reading of
    `probe-output`. A quantity without a reading is unread, and all are where the last line is missing. Two values of one quantity of one
    device contradict each other, so it is unread. `source` and `why`: source of the unread readings, and their problem where the output
    was cut.
    """
    allowed, writers = tuple(quantities), frozenset(sources)
    found: dict[tuple[str, str, str], Reading] = {}
    bad: list[str] = []
    ended: int | None = None
    lines = data[:_LONGEST].decode("utf-8", "replace").split("\n")[:_LINES]
    for number, text in enumerate(lines, 1):
        if not text:
            continue
        item = _object(text)
        if ended is not None:
            bad.append(f"line {number} follows the last line")
        elif item is not None and set(item) == {"end"} and _is_whole(item["end"]):
            ended = item["end"]
        elif (reading := _reading(item, allowed, writers)) is None:
            bad.append(f"line {number} is not a reading: {text[:80]!r}")
        else:
            key = (reading.quantity, reading.device, reading.source)
            if key in found and found[key] != reading:
                reading = unread(*key, "the probe wrote two values")
            found[key] = reading
    readings = list(found.values())
    if ended != len(readings) or bad:
        problem = why if ended is None else "the probe's output is damaged"
        readings += [unread(one, "", source, problem) for one in allowed if (one, "", source) not in found]
        readings += [unread(OUTPUT, "", source, bad[0])] if bad else []
    else:
        seen = {one.quantity for one in readings}
        readings += [unread(one, "", source, "the probe did not report it") for one in allowed if one not in seen]
    return readings


def _object(text: str) -> dict[str, Any] | None:
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return item if isinstance(item, dict) else None


def _reading(item: dict[str, Any] | None, allowed: tuple[str, ...], sources: frozenset[str]) -> Reading | None:
    """Return the reading of a JSON object; None if a key, a type or a name is not allowed."""
    if item is None or set(item) != _KEYS:
        return None
    texts = (item["q"], item["d"], item["s"], item["p"])
    if not all(isinstance(one, str) and one.isprintable() for one in texts):
        return None
    quantity, device, source, problem = texts
    if not _QUANTITY.match(quantity) or not any(_matches(quantity, one) for one in allowed) or source not in sources:
        return None
    if len(device) > _DEVICE or len(problem) > _TEXT or not _is_value(item["v"]):
        return None
    is_word = isinstance(item["v"], str)
    if not is_word and (item["v"] is None) != bool(problem):
        return None  # only a word, such as `warn`, may have a text beside it
    return Reading(quantity, device, item["v"], source, problem)


def _matches(quantity: str, allowed: str) -> bool:
    """Return whether a quantity is the allowed one; `foreign/` allows all names below it."""
    return quantity.startswith(allowed) if allowed.endswith("/") else quantity == allowed


def _is_value(value: object) -> bool:
    if value is None or _is_whole(value):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str) and 0 < len(value) <= _TEXT and value.isprintable()


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_WHOLE < value < _WHOLE
