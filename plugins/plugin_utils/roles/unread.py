# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for a value that a template uses and that is unknown before a task reads the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Unread:
    """A value that a template can use in any way; `uses` counts how often one did."""

    def __init__(self) -> None:
        self.uses = 0

    def _used(self, *_arguments: Any, **_keywords: Any) -> Any:
        self.uses += 1
        return self

    def __getattr__(self, name: str) -> Any:
        # Ansible and Jinja look for these to learn the type of an object.
        if name.startswith("__"):
            raise AttributeError(name)
        return self._used()

    def __str__(self) -> str:
        self.uses += 1
        return ""

    def __iter__(self) -> Iterator[Any]:
        self.uses += 1
        return iter((self,))

    def __len__(self) -> int:
        self.uses += 1
        return 1

    def __bool__(self) -> bool:
        self.uses += 1
        return True

    def __int__(self) -> int:
        self.uses += 1
        return 1

    def __eq__(self, other: object) -> bool:
        self.uses += 1
        return self is other

    __hash__ = object.__hash__
    __getitem__ = __call__ = __add__ = __radd__ = __sub__ = __mul__ = __mod__ = _used

    def __lt__(self, _other: object) -> bool:
        self.uses += 1
        return False

    __le__ = __gt__ = __ge__ = __contains__ = __lt__
