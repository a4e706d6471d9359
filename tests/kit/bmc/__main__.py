# SPDX-License-Identifier: GPL-3.0-or-later
"""Run simulated BMCs as a process of its own.

    python -m tests.kit.bmc FOLDER [SPECS.json]

FOLDER receives the CA (ca.pem), `endpoints.json` once all BMCs answer (a list of node, address, port, fingerprint), and the control socket
`control`. SPECS.json is a list of specs (spec.py). It ends at SIGTERM, at SIGINT, and when its standard input ends with `--with-parent`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

from tests.kit.bmc.server import Farm
from tests.kit.bmc.spec import spec_of


async def _serve(folder: Path, specs: list[dict[str, object]], with_parent: bool, keeps_log: bool) -> None:
    farm, end, loop = Farm(folder), asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    if with_parent:
        loop.add_reader(0, lambda: None if os.read(0, 1024) else end.set())
    try:
        endpoints = [await farm.add(spec_of(one), keeps_log) for one in specs]
        control = await farm.serve_control(folder / "control")
        ready = folder / "endpoints.new"
        ready.write_text(json.dumps(endpoints))
        ready.rename(folder / "endpoints.json")
        await end.wait()
        control.close()
    finally:
        farm.close()


def main() -> int:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.bmc", description="Simulated BMCs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("specs", type=Path, nargs="?")
    parser.add_argument("--with-parent", action="store_true", help="end when the standard input ends")
    parser.add_argument("--no-log", action="store_true", help="keep no list of requests")
    options = parser.parse_args()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    specs = json.loads(options.specs.read_text()) if options.specs else []
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.folder, specs, options.with_parent, not options.no_log))
    return 0


if __name__ == "__main__":
    sys.exit(main())
