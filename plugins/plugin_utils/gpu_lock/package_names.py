# SPDX-License-Identifier: GPL-3.0-or-later
"""Select the packages of a repository's index that the table can name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import matches_any

from ..gpu_stack.stack_model import StackTable

_FIELDS = {
    "branch": "[0-9]{3,4}",
    "version": "[0-9]+(?:[.][0-9]+)+",
    "cuda": "[0-9]+(?:-[0-9]+)?",
    "kernel": "[0-9][^ ]*",
}
_WORD = re.compile(r"\{(\w+)\}")
# The package of a toolkit; what a toolkit consists of has its two numbers in the name, too.
TOOLKIT = re.compile(r"cuda-toolkit-([0-9]+)-([0-9]+)\Z")


def of_source(table: StackTable, system: str, source: str) -> Callable[[str], bool]:
    """Return a test for names of packages: whether the table can name the package, of a source on a system."""
    named = _any_of(_names(table, system, source))
    offer = table.cuda_of(system, source)
    components = _any_of(offer.components if offer else ())
    return lambda name: bool(
        named.match(name) or (components.match(name) and not matches_any(name, table.metapackages))
    )


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    patterns = dict.fromkeys(map(_pattern, names))
    return re.compile(f"(?:{'|'.join(patterns) or '(?!)'})\\Z")


def filled(name: str, **values: str) -> re.Pattern[str]:
    """Return what matches a name of the table with these values; other fields match any.

    >>> bool(filled("libnvidia-nscq-{branch}", branch="570").match("libnvidia-nscq-570"))
    True
    """
    return re.compile(_pattern(name, **values) + r"\Z")


def _pattern(name: str, **values: str) -> str:
    """Return a name of the table as a regular expression: {branch} and the like are numbers, * is any text."""
    parts = _WORD.split(name)
    found = []
    for number, part in enumerate(parts):
        if number % 2:
            found.append(re.escape(values[part]) if part in values else _FIELDS[part])
        else:
            found.append(re.escape(part).replace(r"\*", ".*"))
    return "".join(found)


def _names(table: StackTable, system: str, source: str) -> Iterator[str]:
    for row in table.names:
        if row.source == source and system in row.systems:
            groups: Iterable[tuple[str, ...]] = (
                *row.kernel.values(),
                row.driver,
                row.coupled,
                row.support,
                *row.fabric.values(),
            )
            for group in groups:
                yield from group
    offer = table.cuda_of(system, source)
    if offer:
        for packages in offer.versions.values():
            yield from packages
        if any(TOOLKIT.match(name) for packages in offer.versions.values() for name in packages):
            yield "cuda-toolkit-{cuda}"
    for extra in (table.dcgm, table.toolkit):
        if extra.source == source and system in extra.systems:
            yield from (*extra.packages, *extra.proprietary)
    for row_of_direct in table.gpudirect:
        if row_of_direct.versions and source in row_of_direct.sources and system in row_of_direct.systems:
            yield from row_of_direct.packages[table.systems[system].family]
    if table.nccl.source == source and system in table.nccl.systems:
        yield from table.nccl.packages[table.systems[system].family]
