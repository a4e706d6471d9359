# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the verdict for the prolog, and verdict.json for people, into a folder in memory.

Each file is replaced in one step, so a killed agent leaves the old or the new one. A verdict that cannot be replaced ends the agent: its
unit fails, which people notice. An old verdict that is not a failure is removed then, so that no reader takes it for the current one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...common.files import atomic_write, temporaries_of
from ..report import verdict_line
from ..report.verdict_line import FAIL, Verdict, VerdictError

VERDICT, DETAILS = "verdict", "verdict.json"
_LONGEST_LINE = 4096


class UnwrittenVerdictError(OSError):
    """A verdict that could not be written, such as on a full or read-only /run."""


class VerdictFiles:
    """Write both files into a folder that all users can read."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which is made if it does not exist. UnwrittenVerdictError: it cannot be used."""
        self.folder = folder
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            folder.chmod(0o755)
            leftovers = [one for name in (VERDICT, DETAILS) for one in temporaries_of(folder / name)]
        except OSError as error:
            raise UnwrittenVerdictError(*error.args) from error
        for one in leftovers:
            with suppress(OSError):
                one.unlink()

    def write(self, verdict: Verdict, details: Mapping[str, Any]) -> None:
        """Write the verdict, then its details. UnwrittenVerdictError: one of the files is not the new one."""
        try:
            atomic_write(self.folder / VERDICT, verdict.line(), mode=0o644, sync=False)
            text = json.dumps(details, indent=1, sort_keys=True, default=str)
            atomic_write(self.folder / DETAILS, text + "\n", mode=0o644, sync=False)
        except OSError as error:
            self._remove_better(verdict)
            raise UnwrittenVerdictError(*error.args) from error

    def current(self) -> Verdict | None:
        """Return the verdict that a reader finds now; None without a valid one."""
        try:
            with (self.folder / VERDICT).open("rb") as stream:
                return verdict_line.parse(stream.read(_LONGEST_LINE).decode())
        except (OSError, VerdictError, UnicodeDecodeError):
            return None

    def _remove_better(self, verdict: Verdict) -> None:
        """Remove the old verdict, unless it is a failure or has the same words: until it is too old, it is still true."""
        old = self.current()
        if old is not None and (old.status == FAIL or (old.status, old.health_class) == _words(verdict)):
            return
        with suppress(OSError):
            (self.folder / VERDICT).unlink()


def _words(verdict: Verdict) -> tuple[str, str]:
    return verdict.status, verdict.health_class
