# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that Slurm takes as they are, in topology.conf and in topology.yaml."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 64
# What Slurm's reader of YAML takes for no text, even in quotes, until 26.05; numbers do not begin with a letter, but for these.
NO_TEXT = re.compile(r"(null|nil|none|y|yes|t|true|on|n|no|f|false|off|inf|infinity|nan)\Z", re.IGNORECASE)


class SlurmNames:
    """Names for Slurm: unique, and text to every reader of YAML."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.changed: dict[str, str] = {}

    def take(self, *wanted: str) -> str:
        """Return the first name that is free, or the last one with a number."""
        for name in wanted:
            if name and (plain := safe(name)).lower() not in self.taken:
                return self._keep(name, plain)
        number = 2
        while (plain := safe(f"{wanted[-1]}-{number}")).lower() in self.taken:
            number += 1
        return self._keep(wanted[-1], plain)

    def _keep(self, name: str, plain: str) -> str:
        self.taken.add(plain.lower())
        if name != plain:
            self.changed[name] = plain
        return plain


def safe(name: str) -> str:
    """Return a name that Slurm takes as it is, in topology.conf and topology.yaml: at most 64 signs, no number and no yes.

    >>> safe("001"), safe("1e3"), safe("on"), safe("leaf[1]"), safe("leaf-a01")
    ('sw-001', 'sw-1e3', 'sw-on', 'leaf-1', 'leaf-a01')
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "switch"
    if not plain[0].isalpha() or NO_TEXT.match(plain):
        plain = f"sw-{plain}"
    if len(plain) > _LONGEST:
        mark = hashlib.sha256(name.encode()).hexdigest()[:8]
        plain = f"{plain[: _LONGEST - 9]}-{mark}"
    return plain
