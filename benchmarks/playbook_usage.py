# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-playbook, which writes at its end the CPU seconds of its process and of its forks into the file $BEDPLATE_USAGE."""

from __future__ import annotations

import atexit
import json
import os
import resource
import sys
from pathlib import Path

_PARENT = os.getpid()


def _write() -> None:
    if os.getpid() != _PARENT:
        return
    used = {
        name: sum(resource.getrusage(who)[:2])
        for name, who in (("main", resource.RUSAGE_SELF), ("workers", resource.RUSAGE_CHILDREN))
    }
    Path(os.environ["BEDPLATE_USAGE"]).write_text(json.dumps(used))


if __name__ == "__main__":
    from ansible.cli.playbook import main

    atexit.register(_write)
    sys.exit(main(["ansible-playbook", *sys.argv[1:]]))
