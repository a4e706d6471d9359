# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to hold for the record of machines and for imports: a text is read whole or refused, and no wrong value is written."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines import machine_record, record_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_values import KEYS, is_right
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources import chosen_source, mapped_rows
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.machine_row import SourceError

NAMES = ["gpu001", "gpu002", "gpu003"]
PATH = Path("/site/pod.machines.json")


def imported(text: str) -> None:
    """An export is refused with places, or its values are in the form of the record, one for each key, and what is written can be read."""
    kind, *parts = text.split("\n====\n")
    kind, _dot, suffix = kind.partition(".")
    if kind not in chosen_source.KINDS:
        return
    suffix = suffix if suffix == "csv" else "json"
    names = [f"gpu00{number}.{suffix}" for number in range(1, len(parts) + 1)]
    try:
        documents = [chosen_source.document_of(name, part, kind) for name, part in zip(names, parts, strict=True)]
        rows = chosen_source.rows_in(kind, documents)
    except SourceError as error:
        _placed(error.mistakes, names)
        return
    known = mapped_rows.names_of(NAMES, None, {})
    result = mapped_rows.mapped(rows, known)
    assert len({(one.node, one.key) for one in result.found}) == len(result.found)
    for one in result.found:
        assert one.node in NAMES
        assert one.key in KEYS
        assert is_right(one.key, one.value)
    comparison = record_changes.compare({}, result.found)
    again = machine_record.text_of(comparison.record, NAMES)
    assert machine_record.record_of(PATH, again, NAMES) == {
        name: machine for name, machine in comparison.record.items() if machine.values
    }


def _placed(mistakes: list[str], names: list[str]) -> None:
    assert mistakes
    assert all(any(name in mistake for name in names) for mistake in mistakes) or not names


def recorded(text: str) -> None:
    """A record is refused with all mistakes, each with its line, or it is what it writes."""
    lines = len(text.splitlines()) or 1
    try:
        found = machine_record.record_of(PATH, text, NAMES)
    except machine_record.RecordError as error:
        for mistake in error.mistakes:
            number = mistake.removeprefix(f"{PATH}:").partition(":")[0]
            assert 1 <= int(number) <= max(lines, text.count("\n") + 1)
        return
    assert machine_record.record_of(PATH, machine_record.text_of(found, NAMES), NAMES) == {
        name: machine for name, machine in found.items() if machine.values
    }
