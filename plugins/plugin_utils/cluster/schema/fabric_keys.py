# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabrics of a cluster file by name, and the keys that state each.

What plans and checks a fabric knows one, and names its keys `fabric.KEY`; messages name them as the file has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding

from .fabric_section import FABRIC
from .fields import Mistakes, Path, dotted

# `fabric: ...` is `fabrics: {compute: ...}`.
USUAL = "compute"
ONE, SEVERAL = "fabric", "fabrics"
_OF_SERVICES: Path = ("services", "subnet_managers")
# `fabric.spines` in a text, but not docs/fabric.md.
_KEY = re.compile(rf"(?<![\w./-])fabric(?=\.(?:{'|'.join(FABRIC)})\b)|(?<![\w./-])services\.subnet_managers\b")


@dataclass(frozen=True, slots=True)
class StatedFabric:
    """A fabric of the file: its name, the key of its section, and the key of its subnet managers.

    The first one has Slurm's topology, and the paths that a single fabric has.
    """

    name: str = USUAL
    key: Path = (ONE,)
    managers: Path = _OF_SERVICES
    first: bool = True

    @property
    def part(self) -> str:
        """Return what names of files, directories and units begin with: the name; "" for the first fabric."""
        return "" if self.first else self.name

    @property
    def is_plain(self) -> bool:
        """Return whether its keys are as in a file with one fabric."""
        return self.key == (ONE,) and self.managers == _OF_SERVICES

    def leaf(self, leaf: str) -> str:
        """Return the usual name of a leaf in this fabric, of its name in the first one."""
        return leaf if self.first else f"{self.name}-{leaf}"

    def path(self, path: Path) -> Path:
        """Return a path as the file has it."""
        if path[:1] == (ONE,):
            return (*self.key, *path[1:])
        return (*self.managers, *path[2:]) if path[:2] == _OF_SERVICES else path

    def text(self, text: str) -> str:
        """Return a text with the keys that the file has.

        >>> StatedFabric("storage", ("fabrics", "storage")).text("State fabric.spines: see docs/fabric.md")
        'State fabrics.storage.spines: see docs/fabric.md'
        """
        return text if self.is_plain else _KEY.sub(self._named, text).replace("`fabric`", f"`{dotted(self.key)}`")

    def _named(self, found: re.Match[str]) -> str:
        return dotted(self.key if found[0] == ONE else self.managers)

    def findings(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return findings with the keys that the file has."""
        if self.is_plain:
            return list(findings)
        return [
            replace(
                one,
                where=self.text(one.where),
                expected=self.text(one.expected),
                found=self.text(one.found),
                remedy=self.text(one.remedy),
            )
            for one in findings
        ]


class FabricMistakes(Mistakes):
    """The mistakes of a fabric of the file: its keys are read and noted as `fabric.KEY`, and shown as the file has them."""

    def __init__(self, whole: Mistakes, stated: StatedFabric) -> None:
        depth = len(stated.key)
        own = {(ONE, *path[depth:]): line for path, line in whole.lines.items() if path[:depth] == stated.key}
        super().__init__({**whole.lines, **own}, whole.found)
        self._whole, self._stated = whole, stated

    def add(self, path: Path, message: str) -> None:
        """Note a mistake."""
        self._whole.add(self._stated.path(path), self._stated.text(message))


def mistakes_of(whole: Mistakes, stated: StatedFabric) -> Mistakes:
    """Return where mistakes of a fabric are noted."""
    return whole if stated.is_plain else FabricMistakes(whole, stated)


def stated_fabrics(
    data: Mapping[str, Any], mistakes: Mistakes
) -> dict[str, tuple[StatedFabric, Mapping[str, Any] | None]]:
    """Return name -> fabric and its section, in the order of the file; None for a section without a key.

    A section that is not stated arrives as its defaults, so it exists once one of its keys is set.
    """
    if data[SEVERAL]:
        if (ONE,) in mistakes.lines:
            text = "`fabrics` has all fabrics of the file. Move this section there, as `compute`, and remove this key."
            mistakes.add((ONE,), text)
        named = list(_named(data, mistakes))
        return {one.name: (one, data[SEVERAL][one.name] if _is_set(one.key, mistakes) else None) for one in named}
    return {USUAL: (StatedFabric(), data[ONE])} if data[ONE] and _is_set((ONE,), mistakes) else {}


def _is_set(key: Path, mistakes: Mistakes) -> bool:
    return any(path[: len(key)] == key and len(path) == len(key) + 1 for path in mistakes.lines)


def _named(data: Mapping[str, Any], mistakes: Mistakes) -> Iterator[StatedFabric]:
    for number, name in enumerate(data[SEVERAL]):
        key: Path = (SEVERAL, name)
        first = number == 0
        own = not first or (*key, "subnet_managers") in mistakes.lines
        yield StatedFabric(name, key, (*key, "subnet_managers") if own else _OF_SERVICES, first)
