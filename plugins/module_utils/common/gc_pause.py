# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that makes hundreds of thousands of small things of which none refers to itself."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def suspend_collection(work: F) -> F:
    """Return a function that works without the collector of circles, which would look at everything again and again."""

    @functools.wraps(work)
    def paused(*arguments: Any, **options: Any) -> Any:
        # A quarter of the time of 16,384 HCAs.
        if not gc.isenabled():
            return work(*arguments, **options)
        gc.disable()
        try:
            return work(*arguments, **options)
        finally:
            gc.enable()

    return paused  # type: ignore[return-value]
