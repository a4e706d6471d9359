# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a request with the versions of a lock."""

from __future__ import annotations

from functools import lru_cache

from ..gpu_stack import stack_table
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


def architecture_of(request: Request) -> str:
    """Return the architecture of the CPU beside the GPUs of a request, as stack_model.ARCHITECTURES has it."""
    return Case(request, stack_table.default()).architecture


@lru_cache(maxsize=256)
def locked_stack(request: Request, lock: GpuLock | None) -> Stack:
    """Return the set for a request: of a lock in exact versions, without one of the table. StackError: all mistakes.

    Every task on every host of a profile needs it, and forks inherit it from the check of the file.
    """
    if lock is None:
        return resolve(request)
    architecture = architecture_of(request)
    locked = lock.source(mirrored(request.os, architecture), request.source)
    if locked is None:
        raise StackError(_not_locked(request, architecture))
    stack = resolve(request, _table(lock, request.os, request.source, architecture))
    absent = locked_table.missing(stack, locked)
    if absent:
        raise StackError([_missing(request, [f"{one.name} {one.version}" for one in absent], locked)])
    return locked_table.exact(stack, locked)


@lru_cache(maxsize=64)
def _table(lock: GpuLock, system: str, source: str, architecture: str) -> StackTable:
    locked = lock.systems[mirrored(system, architecture)][source]
    return locked_table.table_of(stack_table.default(), locked, system, source, architecture)


def _not_locked(request: Request, architecture: str) -> list[Refusal]:
    """Return the mistakes of a request that no lock could solve, else that the lock does not have its source."""
    try:
        resolve(request)
    except StackError as error:
        others = [one for one in error.refusals if one.rule not in VERSION_RULES]
        if others:
            return others
    text = f"the lock has no versions of {request.source} on {mirrored(request.os, architecture)}. Write it again: {UPDATE}."
    return [Refusal(RULE, text, request)]


def _missing(request: Request, names: list[str], locked: LockedSource) -> Refusal:
    where = ", ".join(dict.fromkeys(one.url for one in locked.indexes))
    text = f"the lock has no {', '.join(names)} of {request.source} on {request.os}: no index had it ({where})."
    return Refusal(RULE, f"{text} Take another version, or write the lock again: {UPDATE}.", request)
