# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read the line in which the agent leaves its verdict for the prolog.

`1 <status> <boot id> <uptime written> <seconds valid> <class> <checks and text>`, in /run/bedplate/health/verdict. The prolog reads it with
the builtins of a POSIX shell, so words are separated by one blank, and uptime and seconds are whole numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..facts.health_finding import CLASSES

VERSION = 1
OK, WARN, FAIL, UNKNOWN = STATUSES = ("ok", "warn", "fail", "unknown")
NO_CLASS = "-"
_LONGEST = 400
_BOOT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


class VerdictError(ValueError):
    """A line that is not a verdict of this version."""


@dataclass(frozen=True)
class Verdict:
    """Hold a verdict: `written` in seconds since boot, `valid` in seconds after that. `text`: check ids and devices, for people."""

    status: str
    boot: str
    written: int
    valid: int
    health_class: str = NO_CLASS
    text: str = ""

    def line(self) -> str:
        """Return the line with its line break. ValueError: a field that could not be read back."""
        text = " ".join(self.text.split())[:_LONGEST]
        line = f"{VERSION} {self.status} {self.boot} {self.written} {self.valid} {self.health_class} {text}".rstrip()
        parse(line)
        return line + "\n"


def parse(line: str) -> Verdict:
    """Return the verdict of a line. VerdictError: another version, an unknown word, a number that is not whole."""
    words = line.strip().split(" ", 6)
    if len(words) < 6:
        raise VerdictError(f"{len(words)} words; expected at least 6")
    version, status, boot, written, valid, health_class, *text = words
    if version != str(VERSION):
        raise VerdictError(f"version {version!r}; expected {VERSION}")
    if status not in STATUSES:
        raise VerdictError(f"status {status!r}; expected {', '.join(STATUSES)}")
    if not _BOOT.match(boot):
        raise VerdictError(f"{boot!r} is not a boot id")
    if not (written.isdecimal() and written.isascii() and valid.isdecimal() and valid.isascii()):
        raise VerdictError(f"{written!r} and {valid!r}; expected whole seconds")
    if health_class not in (NO_CLASS, *CLASSES):
        raise VerdictError(f"class {health_class!r}; expected {', '.join((NO_CLASS, *CLASSES))}")
    return Verdict(status, boot, int(written), int(valid), health_class, "".join(text))
