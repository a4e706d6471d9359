# SPDX-License-Identifier: GPL-3.0-or-later
"""Share the main program of the units that apply settings to this machine."""

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
    """Apply the settings of a file to this machine, and return an exit code.

    `arguments` are SETTINGS [ROOT]: the JSON file that the role wrote, and the machine's root directory. `apply` yields the failures after
    it has tried everything; each becomes a line of the journal.
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
