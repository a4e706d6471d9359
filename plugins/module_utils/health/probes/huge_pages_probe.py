# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the number of huge pages of each size from sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...common.sysfs import Root
from ..facts.node_facts import Reading
from .reading_lines import unread

SOURCE = "sysfs"
QUANTITIES = ("huge-pages",)
_POOLS = "sys/kernel/mm/hugepages"
_SIZE = re.compile(r"([1-9][0-9]{0,9})([kKMG])[iI]?[bB]?\Z")
_KIB = {"k": 1, "m": 1 << 10, "g": 1 << 20}


def read_pages(root: Root, sizes: Sequence[str]) -> Iterator[Reading]:
    """Yield the pages of each size, such as `2M` or `1G`; the size is the device."""
    for size in sizes:
        match = _SIZE.match(size)
        if not match:
            yield unread("huge-pages", size, SOURCE, f"{size!r} is not a size; expected a number with K, M or G")
            continue
        path = f"{_POOLS}/hugepages-{int(match[1]) * _KIB[match[2].lower()]}kB/nr_hugepages"
        text = root.text(path)
        if text is not None and text.isascii() and text.isdecimal():
            yield Reading("huge-pages", size, int(text), SOURCE)
        else:
            yield unread("huge-pages", size, SOURCE, f"/{path}: {text!r}" if text else f"/{path} cannot be read")
