# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of a CSV file: columns in any order, by the names in columns.json."""

from __future__ import annotations

from collections.abc import Sequence

from . import columns
from .machine_row import Document, MachineRow


def rows_of(documents: Sequence[Document]) -> list[MachineRow]:
    """Return a row for each line of the files. SourceError: all mistakes of the first file with any."""
    return [row for document in documents for row in _rows(document)]


def _rows(document: Document) -> list[MachineRow]:
    headings, lines = columns.table_of(str(document.content), document.name)
    keys = columns.keys_of(headings, document.name)
    found = []
    for line, cells in lines:
        values = {key: cells[number].strip() for key, number in keys.items()}
        name = values.pop(columns.NAME, "")
        found.append(
            MachineRow(f"{document.name}:{line}", name, {key: value for key, value in values.items() if value})
        )
    return found
