# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes that are found after the cluster file was read, reported as its own are: file, line, key, what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from .fields import Mistakes, Path
from .reader import ClusterFileError, read


@dataclass
class Wrong:
    """Collects what is wrong, each with the key at which it is mended; the file is read again for the lines at the end."""

    path: str
    found: list[tuple[tuple[Path, ...], str]] = field(default_factory=list)

    def add(self, where: Path, text: str, *others: Path) -> None:
        """Note what is wrong at a key, or, where the file does not state it, at the first of others that it states."""
        self.found.append(((where, *others), text))

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
