# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse GRUB's menu, grub.cfg, as grub-mkconfig writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ITEM = re.compile(r"\s*(?:menuentry|submenu)\s+(?:'([^']*)'|\"([^\"]*)\")")
_NAME = re.compile(r"(?:\$menuentry_id_option|--id)[= ]+(?:'([^']*)'|\"([^\"]*)\"|(\S+))")
# Xen loads the kernel as a module.
_KERNEL = re.compile(r"\s*(?:linux|linux16|linuxefi|module|module2)\s+\S*/vmlinuz-(\S+)")


@dataclass
class _Item:
    titles: tuple[str, ...] = ()
    kernel: str = ""
    items: list[_Item] = field(default_factory=list)


def kernel_of_entry(text: str, entry: str) -> str:
    """Return the kernel of an entry by place, title or id, after its submenus (`1>2`); "" if the menu lacks the entry.

    >>> kernel_of_entry("menuentry 'a' {\\n linux /vmlinuz-6.1 ro\\n}\\nmenuentry 'b' {\\n linux /boot/vmlinuz-5.1 ro\\n}\\n", "1")
    '5.1'
    """
    item = _read(text)
    for word in entry.split(">"):
        found = [one for one in item.items if word in one.titles]
        if word.isascii() and word.isdigit() and int(word) < len(item.items):
            found = [item.items[int(word)]]
        if not found:
            return ""
        item = found[0]
    return item.kernel


def _read(text: str) -> _Item:
    top = _Item()
    open_items = [top]
    for line in text.splitlines():
        inner = open_items[-1]
        if match := _ITEM.match(line):
            name = _NAME.search(line)
            titles = [group for found in (match, name) if found for group in found.groups() if group]
            inner.items.append(_Item(tuple(titles)))
        elif (match := _KERNEL.match(line)) and not inner.kernel:
            inner.kernel = match[1]
        if line.rstrip().endswith("{"):
            # Functions have braces as well, and no menu entries.
            open_items.append(inner.items[-1] if _ITEM.match(line) else _Item())
        elif line.strip() == "}" and len(open_items) > 1:
            open_items.pop()
    return top
