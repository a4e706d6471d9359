# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the users of a GPU in /proc: steps of jobs, and processes that have its device open."""

from __future__ import annotations

import re
from pathlib import Path

from ...common.processes import DAEMONS, STEP, is_step, target


class GpuUsers:
    """Reader of this machine's /proc; `root` is another root directory for tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def minor(self, address: str) -> int | None:
        """Return the N of /dev/nvidiaN."""
        try:
            text = (self.root / f"proc/driver/nvidia/gpus/{address}/information").read_text(errors="replace")
        except OSError:
            return None
        match = re.search(r"^Device Minor:\s*(\d+)\s*$", text, re.MULTILINE)
        return int(match[1]) if match else None

    def users(self, address: str) -> list[str]:
        """Return the users of a GPU: job steps, whichever GPU they have, and processes that have its device open."""
        device = f"/dev/nvidia{self.minor(address)}"
        found = []
        for process in sorted((self.root / "proc").glob("[0-9]*"), key=lambda path: int(path.name)):
            try:
                name = (process / "comm").read_text(errors="replace").strip()
                files = list((process / "fd").iterdir()) if name not in (STEP, *DAEMONS) else []
            except OSError:
                continue  # it has ended
            if is_step(process, name) or any(target(one) == device for one in files):
                found.append(f"{name} ({process.name})")
        return found
