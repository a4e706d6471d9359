#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for nvidia-smi of a loaded driver, not NVIDIA's software: it keeps the settings of GPUs in a file, and logs each change.

Written after output in public texts, not recorded on a GPU. The GPUs are the directories of /proc/driver/nvidia/gpus. Without its file
the driver was loaded again, so all GPUs have their defaults.
"""

import json
import os
import sys
from pathlib import Path

STATE, LOG = Path("/run/nvidia-smi.json"), Path("/run/nvidia-smi.log")
DEFAULTS = {
    "power.limit": "700.00", "compute_mode": "Default", "ecc.mode.current": "Enabled", "ecc.mode.pending": "Enabled",
    "clocks.current.graphics": "1980", "clocks.current.memory": "2619",
}  # fmt: skip
FIXED = {
    "name": "NVIDIA H100 80GB HBM3", "persistence_mode": "Enabled", "mig.mode.current": "Disabled", "mig.mode.pending": "Disabled",
    "fabric.state": "Completed", "fabric.status": "Success",
}  # fmt: skip
MODES = {"DEFAULT": "Default", "EXCLUSIVE_PROCESS": "Exclusive_Process", "PROHIBITED": "Prohibited"}

Gpus = dict[str, dict[str, str]]


def read() -> Gpus:
    """Return the settings of each GPU by PCI address."""
    saved: Gpus = json.loads(STATE.read_text()) if STATE.exists() else {}
    addresses = sorted(path.name for path in Path("/proc/driver/nvidia/gpus").iterdir())
    return {address: {**DEFAULTS, **saved.get(address, {})} for address in addresses}


def row(address: str, gpu: dict[str, str], fields: list[str]) -> str:
    """Return a line of a query."""
    own = {"pci.bus_id": f"0000{address.upper()}", "uuid": f"GPU-{address}", "enforced.power.limit": gpu["power.limit"]}
    cells = {**FIXED, **gpu, **own}
    return ", ".join(cells[field] for field in fields)


def change(gpu: dict[str, str], word: str) -> None:
    """Change a setting of a GPU."""
    option, _equals, value = word.partition("=")
    if option == "--power-limit":
        gpu["power.limit"] = f"{float(value):.2f}"
    elif option == "--compute-mode":
        gpu["compute_mode"] = MODES[value]
    elif option == "--ecc-config":
        gpu["ecc.mode.pending"] = "Enabled" if value == "1" else "Disabled"
    elif option == "--lock-gpu-clocks":
        gpu["clocks.current.graphics"] = value.split(",")[1]
    elif option == "--lock-memory-clocks":
        gpu["clocks.current.memory"] = value
    else:
        sys.exit(f"stand-in for nvidia-smi: unknown option {option}")


def main(words: list[str]) -> None:
    """Answer a query, or change one GPU."""
    gpus = read()
    if words[0].startswith("--query-gpu="):
        fields = words[0].partition("=")[2].split(",")
        print("\n".join(row(address, gpu, fields) for address, gpu in gpus.items()))
        return
    (option, address, *changes) = words
    if option != "-i" or address not in gpus:
        sys.exit(f"stand-in for nvidia-smi: {words}")
    for word in changes:
        change(gpus[address], word)
    # Another one reads at the same time.
    new = STATE.with_name(f"{STATE.name}.{os.getpid()}")
    new.write_text(json.dumps(gpus))
    new.replace(STATE)
    with LOG.open("a") as log:
        log.write(f"{' '.join(words)}\n")
    print("All done.")


if __name__ == "__main__":
    main(sys.argv[1:])
