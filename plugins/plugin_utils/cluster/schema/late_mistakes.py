# SPDX-License-Identifier: GPL-3.0-or-later
"""Report mistakes that are found after the cluster file was read."""

from __future__ import annotations

from dataclasses import dataclass, field

from .fabric_keys import StatedFabric
from .fields import Mistakes, Path
from .reader import ClusterFileError, read


@dataclass
class MistakeCollector:
    """Collects mistakes, each with the key to correct. The file is read once more for the line numbers.

    Those of a fabric have its keys as `fabric.KEY`; `stated` has them as they are in the file.
    """

    path: str
    stated: StatedFabric = field(default_factory=StatedFabric)
    found: list[tuple[tuple[Path, ...], str]] = field(default_factory=list)

    def add(self, where: Path, text: str, *others: Path) -> None:
        """Add a mistake at a key; if the file does not state the key, at the first of `others` that it states."""
        self.found.append((tuple(map(self.stated.path, (where, *others))), self.stated.text(text)))

    def lines(self) -> list[str]:
        """Return a line for each mistake, in the order of the file."""
        if not self.found:
            return []
        try:
            lines = read(self.path)[1]
        except ClusterFileError:
            lines = {}
        mistakes = Mistakes(lines)
        for keys, text in self.found:
            mistakes.add(next((key for key in keys if key in lines), keys[0]), text)
        return str(ClusterFileError(self.path, mistakes.found)).split("\n")
