# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies of a simulated BMC, and refusals with their message."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    """An answer. `is_cut`: the connection ends without it. `drips`: it is sent byte by byte."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    is_cut: bool = False
    drips: bool = False

    def content(self) -> bytes:
        """Return the body as sent."""
        if self.raw is not None:
            return self.raw
        return b"" if self.body is None else json.dumps(self.body).encode()


class Refused(Exception):  # noqa: N818
    """A refusal with its HTTP status and message id."""

    def __init__(
        self,
        status: int,
        key: str,
        text: str = "",
        headers: dict[str, str] | None = None,
        *,
        args: list[str] | None = None,
    ):
        super().__init__(key)
        message = {
            "MessageId": f"Base.1.12.{key}",
            "Message": text or key,
            "MessageArgs": args or [],
            "Severity": "Critical",
        }
        error = {"code": "Base.1.12.GeneralError", "message": "See ExtendedInfo.", "@Message.ExtendedInfo": [message]}
        self.reply = Reply(status, {"error": error}, headers or {})
