# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of a repository's index, and the error for an unusable one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class IndexReadError(Exception):
    """An index that cannot be read or is not proven: all mistakes, a text each."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = list(dict.fromkeys(mistakes))
        super().__init__("\n".join(self.mistakes))


@dataclass(frozen=True)
class PackageIndex:
    """An index: its repository's name, suite, address and digest, and (package, version) of all packages in it."""

    repository: str
    suite: str
    url: str
    sha256: str
    packages: tuple[tuple[str, str], ...]
