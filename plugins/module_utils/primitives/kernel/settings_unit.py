# SPDX-License-Identifier: GPL-3.0-or-later
"""What a unit that brings this machine to its settings has in common with another one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...common.remedies import run_role_again
from ...common.sysfs import Root

Apply = Callable[[Root, Mapping[str, Any]], Iterable[str]]


def main(arguments: Sequence[str], apply: Apply, role: str) -> int:
    """Bring this machine to the settings of a file, and return an exit code.

    `arguments` are SETTINGS [ROOT]: JSON as the role wrote it, and where the machine's root is. `apply` yields what failed, after all has
    been tried; each is a line of the journal.
    """
    root = Root(arguments[1] if len(arguments) > 1 else "/")
    try:
        settings = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        failed = list(apply(root, settings))
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        sys.stderr.write(f"{' '.join(arguments)}: {error!r}; {run_role_again(role)}\n")
        return 1
    for line in failed:
        sys.stderr.write(f"{line}\n")
    return int(bool(failed))
