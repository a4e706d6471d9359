# SPDX-License-Identifier: GPL-3.0-or-later
"""List the rows of the table that a set of GPU software depends on and that were not read at their source."""

from __future__ import annotations

from collections.abc import Iterator

from ..gpu_stack.apt_repositories import of_stack
from ..gpu_stack.resolve import Request, Stack
from ..gpu_stack.stack_model import StackTable, TableRow, unique
from ..gpu_stack.stack_request import Case


def unverified_rows(request: Request, stack: Stack, table: StackTable) -> list[str]:
    """Return the names of these rows, such as "model h100", each once.

    >>> from ..gpu_stack import stack_table
    >>> from ..gpu_stack.resolve import resolve
    >>> asked = Request(os="debian-13", source="debian", driver="550", gpus=("h100",))
    >>> unverified_rows(asked, resolve(asked), stack_table.default())
    ['model h100']
    """
    return unique(name for name, row in _rows(request, stack, table) if row is not None and not row.verified)


def _rows(request: Request, stack: Stack, table: StackTable) -> Iterator[tuple[str, TableRow | None]]:
    case = Case(request, table)
    yield f"system {request.os}", case.system
    yield from ((f"model {model.name}", model) for model in case.models)
    yield f"platform {case.platform}", table.platforms.get(case.platform)
    for row in of_stack(stack, request.os, request.source):
        yield f"repository {row.name}", row
    yield f"package names of {request.source}", case.names
    yield "CUDA", table.cuda_of(request.os, request.source) if request.cuda else None
    yield "NCCL", table.nccl if request.nccl else None
    yield "DCGM", table.dcgm if request.dcgm else None
    yield "container toolkit", table.toolkit if request.toolkit else None
    for text in request.gpudirect:
        name = text.partition("=")[0]
        yield name, case.gpudirect(name)
