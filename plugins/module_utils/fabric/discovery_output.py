# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse saved or fresh output of discovery commands: detect the command and read its content."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import ibnetdiscover, lldp
from .discovery import Discovery

INFINIBAND, LLDP, TABLES = "infiniband", "lldp", "tables"
# A prompt that was saved with the output may begin with a bracket, too: [root@sm1 ~]#.
_JSON = re.compile(r"\{|\[\s*[\[{\"\]]")
Answers = dict[str, Mapping[str, Any]]


class SavedError(ValueError):
    """Report a text that has nothing to compare."""


@dataclass(frozen=True)
class LldpSettings:
    """State what LLDP does not report: `dialect` of switches whose port names fit several, `mtu` of RoCE interfaces in bytes.

    "" and 0: not stated.
    """

    dialect: str = ""
    mtu: int = 0


@dataclass(frozen=True)
class ToolOutput:
    """Hold a text and its name: that of a plane, of a file, or (lldpctl) of the host that it ran on; and how the site reads LLDP."""

    name: str
    text: str
    settings: LldpSettings = LldpSettings()

    @property
    def kind(self) -> str:
        """Return `lldp` for JSON, `tables` for the forwarding tables that dump_fts prints, otherwise `infiniband`."""
        start = self.text.lstrip()[:12]
        if start == "Unicast lids":
            return TABLES
        return LLDP if _JSON.match(start) else INFINIBAND

    def discovery(self) -> Discovery:
        """Return the discovery of ibnetdiscover's output. Raises SavedError if the output has no node."""
        found = ibnetdiscover.parse(self.text.split("\n"))
        if not found.nodes:
            first = (found.troubles or found.unread or [(0, "")])[0]
            said = f"; line {first[0]} is {first[1][:120]!r}" if first[0] else " and is empty"
            raise SavedError(
                f"{self.name or 'the fabric'}: has no switch and no HCA{said}. Allowed: the output of ibnetdiscover"
            )
        return found

    def answers(self) -> Answers:
        """Return host -> lldpctl's answer; a file holds one answer, or one for each host. Raises SavedError if it is not valid JSON."""
        try:
            data = json.loads(self.text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise SavedError(
                f"{self.name}: is not valid JSON: {error}. Allowed: the output of lldpctl -f json"
            ) from error
        if isinstance(data, dict) and "lldp" in data:
            data = {self.name: data}
        if not isinstance(data, dict) or not data:
            raise SavedError(
                f"{self.name}: is not an answer of lldpctl. Allowed: one answer, or an object host -> answer"
            )
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
