# SPDX-License-Identifier: GPL-3.0-or-later
"""What discovery commands have printed, whether just now or long ago: which command it was, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import ibnetdiscover, lldp
from .discovery import Discovery

INFINIBAND, LLDP = "infiniband", "lldp"
Answers = dict[str, Mapping[str, Any]]


class SavedError(ValueError):
    """A text in which there is nothing to compare."""


@dataclass(frozen=True)
class ToolOutput:
    """A text and its name: a plane's, a file's, or (of lldpctl) that of the box that was asked."""

    name: str
    text: str

    @property
    def kind(self) -> str:
        """Return `lldp` for JSON, else `infiniband`."""
        return LLDP if self.text.lstrip().startswith(("{", "[")) else INFINIBAND

    def discovery(self) -> Discovery:
        """Return what ibnetdiscover told; SavedError where that is nothing."""
        found = ibnetdiscover.parse(self.text.split("\n"))
        if not found.nodes:
            first = (found.troubles or found.unread or [(0, "")])[0]
            said = f"; line {first[0]} is {first[1][:120]!r}" if first[0] else " and is empty"
            raise SavedError(
                f"{self.name or 'the fabric'}: has no switch and no HCA in it{said}; allowed: what ibnetdiscover prints"
            )
        return found

    def answers(self) -> Answers:
        """Return box -> answer of lldpctl; a file holds one answer, or one for each box. SavedError: the text is not valid JSON."""
        try:
            data = json.loads(self.text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise SavedError(f"{self.name}: is not JSON: {error}; allowed: what lldpctl -f json prints") from error
        if isinstance(data, dict) and "lldp" in data:
            data = {self.name: data}
        if not isinstance(data, dict) or not data:
            raise SavedError(f"{self.name}: is no answer of lldpctl; allowed: one, or an object, box -> answer")
        wrong = []
        for box, answer in data.items():
            try:
                for _unused in lldp.neighbours(answer if isinstance(answer, dict) else {}):
                    pass
            except lldp.LldpError as error:
                wrong.append(f"{self.name}: {box}: {error}")
        if wrong:
            raise SavedError("\n".join(wrong))
        return data
