# SPDX-License-Identifier: GPL-3.0-or-later
"""Import the machines of a source into the record, and report them: a table, what is missing, and findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ...cluster import Cluster, Node
from .. import machine_record, record_changes
from ..machine_values import KEYS
from ..record_changes import DIFFERS, HELD, NEW, REPLACED, SAME, TAKEN, Row, Update
from . import chosen_source, mapped_rows
from .chosen_source import ChosenSource
from .machine_row import SourceError
from .mapped_rows import MappedRows

_HEAD = ("node", "key", "recorded", "found", "")
_REMEDY = (
    "Correct the source, or edit the line of {node} in the record, or, if the machine was exchanged, repeat with "
    "-e import_replace={node}"
)
_STATES = {NEW: "new", REPLACED: "replaced", DIFFERS: "differs: not written", TAKEN: "not written", HELD: "not written"}
# Lines of what is no machine of the cluster: an inventory has the whole site.
_MOST_UNMAPPED = 20


@dataclass(frozen=True)
class ImportReport:
    """The result of an import, for people and programs.

    `table`: lines with every value that is not recorded already. `unmapped`: rows of the source without a machine. `missing`: a hostlist of
    nodes that the source lacks, `notes` are keys that it cannot tell. `findings` were not written.
    """

    changed: bool
    msg: str
    table: list[str]
    unmapped: list[str]
    missing: str
    notes: list[str]
    findings: list[Finding]
    diff: dict[str, str]


def replaced_of(text: str, cluster: Cluster) -> list[str]:
    """Return the machines of a hostlist whose recorded values may be replaced. SourceError: the hostlist or a name in it is wrong."""
    if not text.strip():
        return []
    try:
        names = expand(text)
    except HostlistError as error:
        raise SourceError([f"import_replace: {error}"]) from None
    known = cluster.machines
    unknown = [name for name in names if name not in known]
    if unknown:
        hint = did_you_mean(unknown[0], list(known))
        raise SourceError([f"import_replace: {unknown[0]!r} is not a machine of {cluster.path}.{hint}"])
    return names


def import_machines(
    cluster: Cluster,
    source: ChosenSource,
    replaced: Sequence[str] = (),
    *,
    write: bool,
    pause: Callable[[float], None] | None = None,
) -> ImportReport:
    """Read a source, compare it with the record, and write new values in one step; `write`: false predicts.

    SourceError, RecordError: all mistakes; then nothing is written. OSError: the record cannot be written.
    """
    names = list(cluster.machines)
    known = mapped_rows.names_of(names, cluster.domain, machine_record.read(cluster.path, names))
    result = mapped_rows.mapped(chosen_source.rows_of(source, known.is_ours, pause), known)
    if result.mistakes:
        raise SourceError(result.mistakes)
    order = {name: number for number, name in enumerate(names)}
    found = sorted(result.found, key=lambda one: (order[one.node], KEYS.index(one.key)))
    update = record_changes.update(cluster.path, names, found, replaced, write=write)
    return _report(cluster, update, result, write)


def _report(cluster: Cluster, update: Update, result: MappedRows, write: bool) -> ImportReport:
    comparison = update.comparison
    absent = [name for name, one in cluster.machines.items() if isinstance(one, Node) and name not in result.machines]
    new, replaced = (len(comparison.of_state(state)) for state in (NEW, REPLACED))
    kept = len(comparison.of_state(DIFFERS, TAKEN, HELD))
    parts = [
        f"{new} new" if new else "",
        f"{replaced} replaced" if replaced else "",
        f"{len(comparison.of_state(SAME))} as recorded",
        f"{kept} not written" if kept else "",
        f"{len(result.unmapped)} rows without a machine of the cluster" if result.unmapped else "",
        f"nodes missing in the source: {fold(absent)}" if absent else "",
    ]
    would = "" if write or not update.changed else " (predicted)"
    more = len(result.unmapped) - _MOST_UNMAPPED
    unmapped = [*result.unmapped[:_MOST_UNMAPPED], *([f"... and {more} more"] if more > 0 else [])]
    return ImportReport(
        changed=update.changed,
        msg=f"{update.path.name}{would}: {', '.join(filter(None, parts))}",
        table=table([row for row in comparison.rows if row.state != SAME]),
        unmapped=unmapped,
        missing=fold(absent) if absent else "",
        notes=result.notes,
        findings=comparison.findings(_REMEDY),
        diff={
            "before_header": str(update.path),
            "after_header": str(update.path),
            "before": update.before,
            "after": update.after,
        },
    )


def table(rows: Sequence[Row]) -> list[str]:
    """Return rows as a table with a heading; [] for no rows."""
    if not rows:
        return []
    cells = [_HEAD, *((row.node, row.key, row.recorded or "-", row.found, _state(row)) for row in rows)]
    widths = [max(len(one[column]) for one in cells) for column in range(len(_HEAD))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(one, widths, strict=True)).rstrip() for one in cells]


def _state(row: Row) -> str:
    of = f" is of {row.owner}:" if row.owner else ""
    return f"{of.lstrip()} {_STATES[row.state]}".strip() + f" ({row.source})"


def as_result(report: ImportReport) -> dict[str, Any]:
    """Return a report as plain data, without its diff."""
    findings = [str(one) for one in report.findings]
    lines = [*report.table, *report.notes, *report.unmapped]
    kept = {key: getattr(report, key) for key in ("changed", "msg", "table", "unmapped", "missing", "notes")}
    return {**kept, "findings": findings, "lines": [report.msg, *lines]}
