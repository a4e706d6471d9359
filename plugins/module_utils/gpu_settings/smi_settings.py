# SPDX-License-Identifier: GPL-3.0-or-later
"""Read power limit, clocks, ECC and compute mode of this machine's GPUs from nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..common.command import run
from ..gpu.devices.gpu_devices import address_of
from ..gpu.devices.nvidia_smi import FAILURES

POWER, ENFORCED, COMPUTE_MODE = "power.limit", "enforced.power.limit", "compute_mode"
ECC, ECC_PENDING = "ecc.mode.current", "ecc.mode.pending"
GRAPHICS, MEMORY = "clocks.current.graphics", "clocks.current.memory"
QUERY = ("pci.bus_id", POWER, ENFORCED, COMPUTE_MODE, ECC, ECC_PENDING, GRAPHICS, MEMORY)
# nvidia-smi takes seconds per GPU; one that hangs is abandoned.
_SECONDS = 120.0
# nvidia-smi prints a setting that a GPU lacks as a warning, and ends with 0.
_WARNING = "Treating as warning"

# With a unit where nvidia-smi ignores `nounits`.
_NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(?: (?:W|MHz))?\Z")

# Takes the arguments of nvidia-smi and returns its output. Raises SettingsError if it failed.
Smi = Callable[[Sequence[str]], str]


class SettingsError(Exception):
    """Describe a failure and its remedy."""


@dataclass(frozen=True)
class Gpu:
    """A GPU: PCI address as in sysfs, and the cell of each field of QUERY as nvidia-smi prints it."""

    address: str
    cells: dict[str, str]

    @property
    def failure(self) -> str:
        """The failure that nvidia-smi prints in place of values, such as `GPU is lost`; "" without one."""
        return next((one.strip("[]") for one in FAILURES if one in self.cells.values()), "")

    def number(self, field: str) -> float | None:
        """Return watts or MHz; None for a cell that is not a number, as `[N/A]` and `[GPU is lost]`."""
        match = _NUMBER.match(self.cells[field])
        return float(match[1]) if match else None

    def switch(self, field: str) -> bool | None:
        """Return whether a mode is on; None for a cell that is neither Enabled nor Disabled."""
        return {"Enabled": True, "Disabled": False}.get(self.cells[field])

    @property
    def compute_mode(self) -> str:
        """The compute mode in small letters, or the cell of a GPU without one."""
        return self.cells[COMPUTE_MODE].lower()


def parse(text: str) -> list[Gpu]:
    """Parse `nvidia-smi --query-gpu=QUERY --format=csv,noheader,nounits`, ordered by PCI address."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        values = [value.strip() for value in line.split(",")]
        address = address_of(values[0])
        if address is None or len(values) != len(QUERY):
            raise SettingsError(f"nvidia-smi: {line.strip()!r} is not {', '.join(QUERY)} of a GPU")
        found.append(Gpu(address, dict(zip(QUERY, values))))
    return sorted(found, key=lambda gpu: gpu.address)


def read_gpus(smi: Smi) -> list[Gpu]:
    """Return the GPUs of this machine."""
    return parse(smi([f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]))


def run_nvidia_smi(arguments: Sequence[str]) -> str:
    """Run nvidia-smi and return its output. Raises SettingsError if it fails, does not answer, or ignores a setting."""
    done = run(["nvidia-smi", *arguments], _SECONDS)
    shown, text = " ".join(["nvidia-smi", *arguments]), " ".join((done.stdout + done.stderr).split())
    if done.code is None:
        raise SettingsError(f"{shown}: no answer within {_SECONDS:g} s; a GPU or the driver hangs (journalctl -k)")
    if done.code != 0 or _WARNING in text:
        raise SettingsError(f"{shown} ended with {done.code}: {text}")
    return done.stdout
