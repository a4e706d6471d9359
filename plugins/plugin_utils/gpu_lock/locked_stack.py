# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a request with the versions of a lock."""

from __future__ import annotations

from functools import lru_cache

from ..gpu_rows import site_rows
from ..gpu_rows.site_rows import NO_ROWS, SiteRows
from ..gpu_stack.apt_repositories import mirrored
from ..gpu_stack.resolve import Refusal, Request, Stack, StackError, resolve
from ..gpu_stack.stack_model import StackTable
from ..gpu_stack.stack_request import Case
from . import locked_table
from .lock_document import UPDATE, GpuLock, LockedSource

RULE = "lock"
"""Of a refusal whose reason is the lock itself."""
VERSION_RULES = (
    "architecture", "architecture-cuda", "coupled", "cuda-source", "flavour-source", "gpu-version", "kernel", RULE, "nccl-cuda",
    "unknown-cuda", "unknown-dcgm", "unknown-driver", "unknown-nccl", "unknown-toolkit",
)  # fmt: skip
"""Rules whose verdict depends on the versions of a lock, which a command may still write or update."""


def architecture_of(request: Request, rows: SiteRows = NO_ROWS) -> str:
    """Return the architecture of the CPU beside the GPUs of a request, as stack_model.ARCHITECTURES has it."""
    return Case(request, site_rows.table_with(rows)).architecture


@lru_cache(maxsize=256)
def locked_stack(request: Request, lock: GpuLock | None, rows: SiteRows = NO_ROWS) -> Stack:
    """Return the set for a request: of a lock in exact versions, without one of the table. StackError: all mistakes.

    `rows` are the site's own of the table.

    Every task on every host of a profile needs it, and forks inherit it from the check of the file.
    """
    if lock is None:
        return resolve(request, site_rows.table_with(rows))
    architecture = architecture_of(request, rows)
    locked = lock.source(mirrored(request.os, architecture), request.source)
    if locked is None:
        raise StackError(_not_locked(request, architecture, rows))
    table = table_of(request, lock, rows)
    # Without one no rule has a driver to judge, as with a lock of a release that knew other names of packages.
    if not table.drivers_of(request.os, request.source, architecture):
        raise StackError(_not_locked(request, architecture, rows, "whole driver"))
    stack = resolve(request, table)
    absent = locked_table.missing(stack, locked)
    if absent:
        raise StackError([_missing(request, [f"{one.name} {one.version}" for one in absent], locked)])
    return locked_table.exact(stack, locked)


def table_of(request: Request, lock: GpuLock | None, rows: SiteRows = NO_ROWS) -> StackTable:
    """Return the table that judges a request: with the site's rows, and with the versions of a lock that has its source."""
    architecture = architecture_of(request, rows)
    if lock is None or lock.source(mirrored(request.os, architecture), request.source) is None:
        return site_rows.table_with(rows)
    return _table(lock, rows, request.os, request.source, architecture)


@lru_cache(maxsize=64)
def _table(lock: GpuLock, rows: SiteRows, system: str, source: str, architecture: str) -> StackTable:
    locked = lock.systems[mirrored(system, architecture)][source]
    return locked_table.table_of(site_rows.table_with(rows), locked, system, source, architecture)


def _not_locked(request: Request, architecture: str, rows: SiteRows, lacks: str = "versions") -> list[Refusal]:
    """Return the mistakes of a request that no lock could solve, else that the lock does not have its source."""
    try:
        resolve(request, site_rows.table_with(rows))
    except StackError as error:
        others = [one for one in error.refusals if one.rule not in VERSION_RULES]
        if others:
            return others
    text = f"the lock has no {lacks} of {request.source} on {mirrored(request.os, architecture)}. Write it again: {UPDATE}."
    return [Refusal(RULE, text, request)]


def _missing(request: Request, names: list[str], locked: LockedSource) -> Refusal:
    where = ", ".join(dict.fromkeys(one.url for one in locked.indexes))
    text = f"the lock has no {', '.join(names)} of {request.source} on {request.os}: no index had it ({where})."
    return Refusal(RULE, f"{text} Take another version, or write the lock again: {UPDATE}.", request)
