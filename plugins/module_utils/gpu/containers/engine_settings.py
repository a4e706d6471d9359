# SPDX-License-Identifier: GPL-3.0-or-later
"""Set bedplate's keys in settings files of container engines that belong to the site; all other keys stay."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .toml_editor import TomlError, set_values

FORMATS = ("json", "toml")


class SettingsError(Exception):
    """File that cannot be read or set; the text is complete."""


def edited_text(path: Path, kind: str, values: Mapping[str, Any], before: str) -> str:
    """Return the text of a settings file with these values; the same text if it has them already."""
    if kind == "toml":
        try:
            return set_values(before, values)
        except TomlError as error:
            raise SettingsError(f"{path}: {error}") from None
    now = _json(path, before)
    then = _merged(now, values, str(path))
    if then == now and before.strip():
        return before
    return json.dumps(then, indent=_indent(before)) + "\n"


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise SettingsError(
            f"{path} is not JSON, so its engine cannot read it either: {error}. Correct it, or move it away, and run again"
        ) from None
    if not isinstance(found, dict):
        raise SettingsError(f"{path} contains {type(found).__name__}. Allowed: an object, such as {{}}")
    return found


def _merged(now: Mapping[str, Any], values: Mapping[str, Any], where: str) -> dict[str, Any]:
    done = dict(now)
    for key, value in values.items():
        if not isinstance(value, Mapping):
            done[key] = value
            continue
        below = now.get(key, {})
        if not isinstance(below, Mapping):
            raise SettingsError(
                f"{where}: {key} is {below!r}. Allowed: an object, since it must contain {', '.join(value)}"
            )
        done[key] = _merged(below, value, f"{where}: {key}")
    return done


def _indent(text: str) -> int | str:
    """Return the indent of a JSON text's lines."""
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    if not match:
        return 2
    return match[1] if "\t" in match[1] else len(match[1])


def read(path: Path) -> str:
    """Return the text of a file; "" if it does not exist."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
