# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the model of the GPU table for the name that the driver or pci.ids gives to a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..gpu_stack import stack_table


def model_of(name: str, models: Iterable[str] | None = None) -> str:
    """Return the model with the most words that are all in a name; "" if no model matches.

    >>> names = ("NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA A100-SXM4-80GB")
    >>> [model_of(name, ["h100", "h100-nvl", "a10", "a100"]) for name in names]
    ['h100', 'h100-nvl', 'a100']
    """
    words = _words(name)
    known = stack_table.default().models if models is None else models
    found = [model for model in known if _words(model) <= words]
    return max(found, key=lambda model: len(_words(model)), default="")


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))
