# SPDX-License-Identifier: GPL-3.0-or-later
"""Read tables with headings: their columns by the names that sites and other systems give them, which are in columns.json."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from .machine_row import SourceError

NAME = "name"
_WORDS = re.compile(r"[^a-z0-9]+")
_SEPARATORS = ",;\t|"


@cache
def aliases() -> dict[str, str]:
    """Return heading, in small letters with `_` between words -> `name` or a key of the record."""
    rows = json.loads(Path(__file__).with_name("columns.json").read_text(encoding="utf-8"))
    return {alias: key for key, names in rows.items() for alias in names}


def heading(written: str) -> str:
    """Return a heading in the form of columns.json.

    >>> heading(" BMC MAC-Address")
    'bmc_mac_address'
    """
    return _WORDS.sub("_", written.strip().lower()).strip("_")


def keys_of(headings: Sequence[str], where: str) -> dict[str, int]:
    """Return key -> number of its column. SourceError: two columns of one key, or neither names nor serial numbers."""
    found: dict[str, int] = {}
    mistakes = []
    for number, written in enumerate(headings):
        key = aliases().get(heading(written))
        if key in found:
            mistakes.append(f"{where}: columns {headings[found[key]]!r} and {written!r} are both {key}. Keep one.")
        elif key:
            found[key] = number
    if NAME not in found and "serial" not in found:
        known = ", ".join(dict.fromkeys(aliases().values()))
        mistakes.append(
            f"{where}: no column for the name or the serial number. Allowed: {known}, or a name of docs/how-to/import-machines.md."
        )
    if mistakes:
        raise SourceError(mistakes)
    return found


def table_of(content: str, name: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the headings of a CSV file, and line number and cells of each row; a row has a cell for each heading.

    Separators are `,` `;` `|` or tabs. Lines that are empty or begin with # are left out. SourceError: all rows with too many cells.
    """
    lines = content.splitlines(keepends=True)
    first = next((one for one in lines if one.strip() and not one.startswith("#")), "")
    separator = max(_SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(content), delimiter=separator, skipinitialspace=True, strict=True)
    headings: list[str] = []
    rows, mistakes = [], []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if not headings:
                headings = cells
            elif len(cells) > len(headings):
                mistakes.append(
                    f"{name}:{reader.line_num}: {len(cells)} cells; allowed: {len(headings)}, as the headings are."
                )
            else:
                rows.append((reader.line_num, [*cells, *[""] * (len(headings) - len(cells))]))
    except csv.Error as error:
        mistakes.append(f"{name}:{reader.line_num}: is not CSV: {error}.")
    if not headings and not mistakes:
        mistakes.append(f"{name}: is empty. Allowed: a line of headings, and a line for each machine.")
    if mistakes:
        raise SourceError(mistakes)
    return headings, rows


def tagged(tags: Mapping[str, object]) -> dict[str, str]:
    """Return key of the record -> value, of tags whose names are headings of columns.json."""
    known = {aliases().get(heading(str(name))): value for name, value in tags.items()}
    return {key: str(value) for key, value in known.items() if key and key != NAME and value}
