# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a site's own rows of the table of GPU software, the file <site>.gpu-table.yml beside a cluster file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any

from ..cluster.schema.fields import Mistakes, walk
from ..cluster.schema.reader import ClusterFileError, read
from ..common.beside import Stamp, path_beside, stamp_of
from ..gpu_stack import driver_versions, stack_table
from ..gpu_stack.stack_model import BranchEnd, Break, Generation, InstalledDriver, Model, StackTable
from . import rows_schema
from .site_rows import NO_ROWS, SiteRows

SUFFIX = ".gpu-table.yml"
_PAGE = "docs/gpu-stack.md"


def path_of(cluster_file: str | FilePath) -> FilePath | None:
    """Return where the rows of a site are; None for an inventory without a cluster file.

    >>> str(path_of("/srv/west.bedplate.yml"))
    '/srv/west.gpu-table.yml'
    """
    return path_beside(cluster_file, SUFFIX)


def stamp(cluster_file: str | FilePath) -> Stamp:
    """Return what changes whenever the rows of a cluster file do."""
    return stamp_of(path_of(cluster_file))


def rows_of(cluster_file: str | FilePath) -> SiteRows:
    """Return the rows beside a cluster file, none where no file exists. ClusterFileError: all mistakes of the rows."""
    found = stamp(cluster_file)
    return _read(*found) if found[0] else NO_ROWS


def usable_rows(cluster_file: str | FilePath) -> SiteRows:
    """Return the rows beside a cluster file, none for rows with mistakes, which `error_of` reports."""
    try:
        return rows_of(cluster_file)
    except ClusterFileError:
        return NO_ROWS


def error_of(cluster_file: str | FilePath) -> ClusterFileError | None:
    """Return the mistakes of the rows beside a cluster file; None: no mistake, or no file."""
    try:
        rows_of(cluster_file)
    except ClusterFileError as error:
        return error
    return None


@lru_cache(maxsize=8)
def _read(path: str, *_version: int) -> SiteRows:
    """Read rows, once for each version of the file."""
    data, lines, twice = read(path, _PAGE)
    mistakes = Mistakes(lines, twice)
    checked = walk(data, rows_schema.GPU_TABLE, (), mistakes)
    table = stack_table.default()
    _check(checked, table, mistakes)
    if mistakes.found:
        raise ClusterFileError(path, mistakes.found)
    return SiteRows(
        models=tuple(_model(name, row, _generations(table)) for name, row in checked["models"].items()),
        branches=tuple(
            BranchEnd(branch=int(name), ends=row["ends"], source=f"{path}: {row['source']}", verified=True)
            for name, row in checked["branches"].items()
        ),
        installed=tuple(
            InstalledDriver(
                source=row["source"], systems=(row["os"],), version=row["driver"], flavours=(row["module"],)
            )
            for row in checked["installed"]
        ),
        breaks=tuple(
            Break(systems=(row["os"],), version=row["driver"], works=row["works"], fails=row["fails"], why=row["why"])
            for row in checked["breaks"]
        ),
    )


def _generations(table: StackTable) -> dict[str, Generation]:
    return {one.generation.name: one.generation for one in table.models.values()}


def _model(name: str, row: Mapping[str, Any], generations: Mapping[str, Generation]) -> Model:
    known = {one.name for one in fields(Model)}
    given = {key: value for key, value in row.items() if key in known and value is not None}
    return Model(**{**given, "name": name, "generation": generations[row["generation"]]})


def _check(data: Mapping[str, Any], table: StackTable, mistakes: Mistakes) -> None:
    """Note the mistakes between values, and unknown names."""
    for name, row in data["models"].items():
        _known(row["generation"], _generations(table), ("models", name, "generation"), "GPU generation", mistakes)
        lowest, least, highest = row["lowest"], row["least"], row["highest"]
        if lowest and least and driver_versions.branch(least) != lowest:
            text = f"{least} is not of branch {lowest}, which is `lowest`. Allowed: a version of that branch."
            mistakes.add(("models", name, "least"), text)
        if lowest and highest and highest < lowest:
            mistakes.add(
                ("models", name, "highest"), f"{highest} is below `lowest`, {lowest}. Allowed: {lowest} or later."
            )
    for section in ("installed", "breaks"):
        for number, row in enumerate(data[section]):
            if row:
                _known(row["os"], table.systems, (section, number, "os"), "operating system", mistakes)
    for number, row in enumerate(data["breaks"]):
        if row and row["works"] and row["fails"]:
            works, fails = (driver_versions.kernel(row[key]) for key in ("works", "fails"))
            if works >= fails:
                text = f"{row['fails']} is not later than `works`, {row['works']}. Allowed: a later kernel."
                mistakes.add(("breaks", number, "fails"), text)


def _known(value: str | None, known: Iterable[str], path: tuple[str | int, ...], what: str, mistakes: Mistakes) -> None:
    names = list(known)
    if value is not None and value not in names:
        mistakes.unknown(path, what, value, names)
