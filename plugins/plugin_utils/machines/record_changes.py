# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare found values with the record of machines, and write new ones. Only a person's word for a node overwrites a recorded value.

Two values at odds are a finding: the machine was exchanged, the source is wrong, or somebody else answers. A person decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding

from ..common.folder_lock import folder_alone
from . import machine_record
from .machine_record import NOTHING, Machine, Record, RecordError, identity
from .machine_values import UNIQUE

NEW, SAME, DIFFERS, TAKEN, REPLACED, HELD = "new", "same", "differs", "taken", "replaced", "held"
KIND_DIFFERS, KIND_TAKEN = "machine-differs", "machine-taken"


@dataclass(frozen=True)
class FoundValue:
    """A value that a source has: `key` and `value` in the form of the file, `source` such as `machines.csv:3`."""

    node: str
    key: str
    value: str
    source: str


@dataclass(frozen=True)
class Row:
    """A found value beside the recorded one.

    `state`: new (written), same, differs (a finding), taken (a finding: `owner` has the value), replaced (written, since a person said so),
    held (not written, since another value of the node is a finding: both may be of another machine).
    """

    node: str
    key: str
    recorded: str
    found: str
    source: str
    state: str
    owner: str = ""

    def finding(self, remedy: str) -> Finding:
        """Return the row as a finding; `remedy` says what a person can do."""
        found = f"{self.found} ({self.source})"
        if self.state == TAKEN:
            return Finding(
                KIND_TAKEN, self.key, "", f"{found} is on record for {self.owner}", remedy, machine=self.node
            )
        return Finding(KIND_DIFFERS, self.key, self.recorded, found, remedy, machine=self.node)


@dataclass(frozen=True)
class Comparison:
    """All found values by state, and the record with the new and replaced ones."""

    rows: tuple[Row, ...]
    record: Mapping[str, Machine]

    def of_state(self, *states: str) -> list[Row]:
        """Return the rows of these states."""
        return [row for row in self.rows if row.state in states]

    @property
    def refused(self) -> list[Row]:
        """Return the rows that are findings."""
        return self.of_state(DIFFERS, TAKEN)

    def findings(self, remedy: str) -> list[Finding]:
        """Return the findings; `{node}` in `remedy` is the name of the machine."""
        return [row.finding(remedy.replace("{node}", row.node)) for row in self.refused]


@dataclass(frozen=True)
class Update:
    """A comparison, and the text of the file before and after."""

    path: Path
    comparison: Comparison
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Return whether the file has another text now, or would have."""
        return self.before != self.after


def compare(record: Record, found: Iterable[FoundValue], replaced: Collection[str] = ()) -> Comparison:
    """Compare values with the record; a value of the nodes in `replaced` takes the place of the recorded one."""
    rows = [_row(record, one, replaced) for one in found]
    while True:
        result = _with(record, [row for row in rows if row.state in (NEW, REPLACED)])
        owners = _owners(result)
        judged = [_taken(row, owners) if row.state in (NEW, REPLACED) else row for row in rows]
        refused = {row.node for row in judged if row.state in (DIFFERS, TAKEN)}
        judged = [
            replace(row, state=HELD) if row.node in refused and row.state in (NEW, REPLACED) else row for row in judged
        ]
        if judged == rows:
            return Comparison(tuple(rows), result)
        # One that is refused leaves the recorded value, which may be that of another row.
        rows = judged


def _row(record: Record, one: FoundValue, replaced: Collection[str]) -> Row:
    recorded = record.get(one.node, NOTHING).values.get(one.key, "")
    differs = REPLACED if one.node in replaced else DIFFERS
    state = NEW if not recorded else SAME if recorded == one.value else differs
    return Row(one.node, one.key, recorded, one.value, one.source, state)


def _with(record: Record, rows: Iterable[Row]) -> dict[str, Machine]:
    result = dict(record)
    for row in rows:
        result[row.node] = replace(result.get(row.node, NOTHING), **{row.key: row.found})
    return result


def _owners(record: Record) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return value -> node and key, of all that have it."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for node, machine in record.items():
        for key, value in machine.values.items():
            if key in UNIQUE:
                found.setdefault(identity(key, value), []).append((node, key))
    return found


def _taken(row: Row, owners: Mapping[tuple[str, str], Sequence[tuple[str, str]]]) -> Row:
    """Return the row as taken if its value is at another place of the record, too."""
    if row.key not in UNIQUE:
        return row
    others = [one for one in owners[identity(row.key, row.found)] if one != (row.node, row.key)]
    return replace(row, state=TAKEN, owner=f"{others[0][0]} ({others[0][1]})") if others else row


def update(
    cluster_file: str | Path,
    names: Sequence[str],
    found: Iterable[FoundValue],
    replaced: Collection[str] = (),
    *,
    write: bool,
) -> Update:
    """Compare values with the record beside a cluster file, and write new ones in one step; `write`: false only predicts.

    `names` are the machines of the cluster file in its order. RecordError: all mistakes of the file. OSError: it cannot be written.
    """
    path = machine_record.path_of(cluster_file)
    if path is None:
        raise RecordError([f"{cluster_file}: the name of a cluster file ends with .bedplate.yml."])
    with folder_alone(path.parent):
        before = machine_record.read_text(path)
        record = machine_record.record_of(path, before, names) if before else {}
        comparison = compare(record, found, replaced)
        is_changed = bool(comparison.of_state(NEW, REPLACED))
        after = machine_record.text_of(comparison.record, names) if is_changed else before
        if write and before != after:
            atomic_write(path, after)
    return Update(path, comparison, before, after)
