# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the kernel modules of GPUDirect, one function per rule as in rules.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from . import driver_versions
from .request_mistakes import nearest_entry
from .rules import Rule, RuleViolation
from .stack_model import unique
from .stack_request import Case, Request


def known_modules(case: Case) -> Iterator[RuleViolation]:
    """The table has each module for this source and system, and the request states a version that the table lacks."""
    request, known = case.request, unique(row.name for row in case.table.gpudirect)
    names = [text.partition("=")[0] for text in request.gpudirect]
    for name in unique(name for name in names if names.count(name) > 1):
        entries = [text for text in request.gpudirect if text.partition("=")[0] == name]
        others = tuple(text for text in request.gpudirect if text not in entries)
        said = f"GPUDirect module {name} is named {len(entries)} times: {', '.join(entries)}."
        yield RuleViolation("gpudirect-twice", said, replace(request, gpudirect=(*others, entries[0])))
    for text in request.gpudirect:
        name, _sign, version = text.partition("=")
        row, without = case.gpudirect(name), _without(request, text)
        if name not in known:
            said = f"GPUDirect module {name!r} is not in the table; nearest: {nearest_entry(name, known)}; known: {', '.join(known)}."
            yield RuleViolation("unknown-gpudirect", said, without)
        elif row is None:
            said = f"GPUDirect module {name} is not in the table for source {request.source} on {request.os}."
            yield RuleViolation("gpudirect-source", said, without)
        elif version and not row.packages:
            said = f"GPUDirect module {name} is in the packages of the driver and has its version; name it without a version."
            yield RuleViolation("gpudirect-version", said, replace(without, gpudirect=(*without.gpudirect, name)))
        elif row.packages and not version and not row.versions:
            said = f"no version of GPUDirect module {name} is in the table: write {name}=VERSION, as the repository has it."
            yield RuleViolation("gpudirect-version", said, without)


def open_driver(case: Case) -> Iterator[RuleViolation]:
    """nvidia-fs supports the open kernel module alone from a version on."""
    for text in case.request.gpudirect:
        name, _sign, version = text.partition("=")
        row = case.gpudirect(name)
        if row is None or not row.open_from or case.flavour != "proprietary":
            continue
        # Debian writes the version of CUDA behind it.
        chosen = re.split("[~-]", version or row.versions[-1])[0]
        if driver_versions.numbers(chosen) >= driver_versions.numbers(row.open_from):
            said = f"{name} {chosen} supports the open kernel module alone, as every version from {row.open_from} on; module: proprietary."
            fix = replace(case.request, module="open") if "open" in case.wanted else _without(case.request, text)
            yield RuleViolation("gpudirect-open", said, fix)


def _without(request: Request, text: str) -> Request:
    return replace(request, gpudirect=tuple(one for one in request.gpudirect if one != text))


RULES: tuple[Rule, ...] = (known_modules, open_driver)
