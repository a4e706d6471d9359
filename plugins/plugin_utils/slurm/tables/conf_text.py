# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's file format: one `Option=value` a line, or several on the line of a node, partition or switch."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

HEADER = "# Written by bedplate from the cluster file. Changes made here are overwritten.\n"


@functools.cache
def _defaults() -> dict[str, list[dict[str, str]]]:
    data: dict[str, list[dict[str, str]]] = json.loads(Path(__file__).with_name("defaults.json").read_text())
    return data


def defaults(kind: str) -> dict[str, str]:
    """Return bedplate's defaults for a file (`slurm`, `cgroup`, `slurmdbd`), option -> value, in file order."""
    return {row["option"]: row["value"] for row in _defaults()[kind]}


def merge(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Lay `changes` over `base`; names compare without case, as Slurm does; a null value removes the option.

    >>> merge({"MessageTimeout": "30", "MailProg": "/bin/true"}, {"messagetimeout": 60, "MailProg": None})
    {'messagetimeout': 60}
    """
    changed = {name.lower() for name in changes}
    merged = {name: value for name, value in base.items() if name.lower() not in changed}
    merged.update({name: value for name, value in changes.items() if value is not None})
    return merged


def text_of(value: object) -> str:
    """Return a YAML value as Slurm spells it: booleans as YES and NO, lists with commas."""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, list | tuple):
        return ",".join(text_of(item) for item in value)
    return str(value)


def file_of(options: Mapping[str, object], extra_lines: Iterable[str] = ()) -> str:
    """Return the text of a file with an option a line, then `extra_lines`."""
    lines = [_pair(name, value) for name, value in options.items()]
    return HEADER + "".join(line + "\n" for line in [*lines, *extra_lines])


def _pair(name: str, value: object) -> str:
    text = text_of(value)
    return f'{name}="{text}"' if " " in text else f"{name}={text}"


def line_of(pairs: Mapping[str, object]) -> str:
    """Return one line of pairs; values with blanks are quoted.

    >>> line_of({"NodeName": "gpu01", "State": "DRAIN", "Reason": "GPU 3 lost"})
    'NodeName=gpu01 State=DRAIN Reason="GPU 3 lost"'
    """
    return " ".join(_pair(name, value) for name, value in pairs.items())
