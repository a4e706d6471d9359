# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision of a role for one host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """A module or an action with its arguments: a step of a role besides files, units and packages.

    `after_change`: run it only where this file changed in the same task. `phases`: those of packages, files and services in which the step
    runs; empty for a step that always runs, such as a check before a change.
    """

    module: str
    arguments: Values
    after_change: str = ""
    hide_diff: bool = False
    phases: Sequence[str] = ()


class LazyParts(Mapping[str, Values]):
    """Values of parts, each computed when it is read first: a task deploys one part, and another one may be large."""

    def __init__(self, makers: Mapping[str, Callable[[], Values]]) -> None:
        self._makers = makers
        self._made: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Values:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass(frozen=True)
class Decision:
    """The parts that a role deploys on a host, with their values.

    `parts`: name of a file in `roles/<role>/parts` -> its values. `expected`: a part of plugins/module_utils/verify/readers.py -> what it
    compares on the host. `steps`: name of a step that this host needs -> the modules that it runs, in order. `refusal`: why nothing may
    be deployed on this host now, or "".
    """

    parts: Mapping[str, Values] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)
    steps: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    refusal: str = ""
