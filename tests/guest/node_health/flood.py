# SPDX-License-Identifier: GPL-3.0-or-later
"""Flood the kernel's log, with two Xids: one of each GPU, in the middle and at the end.

Usage: flood.py LINES SECONDS GPU GPU. Prints a JSON object: seconds, and the uptimes of the verdicts that were read meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

BLOCK = 500


def main(lines: int, seconds: float, gpus: list[str]) -> dict[str, object]:
    """Write `lines` in at least `seconds`."""
    handle = os.open("/dev/kmsg", os.O_WRONLY)
    seen = set()
    begin = time.monotonic()
    for number in range(lines):
        if number == lines // 2:
            _xid(handle, gpus[0])
        os.write(handle, b"<6>eth0: link is up, number %d\n" % number)
        if number % BLOCK == 0:
            seen.add(int(Path("/run/bedplate/health/verdict").read_text().split()[3]))
            time.sleep(max(0.0, begin + seconds * number / lines - time.monotonic()))
    _xid(handle, gpus[1])
    return {"seconds": time.monotonic() - begin, "verdicts": sorted(seen)}


def _xid(handle: int, gpu: str) -> None:
    os.write(handle, b"<4>NVRM: Xid (PCI:%s): 79, pid=1, name=python3, GPU has fallen off the bus.\n" % gpu.encode())


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])))
