# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare power limit, clocks, ECC and compute mode of a machine's GPUs with the cluster file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..common.finding import Finding
from .apply_settings import TOLERANCE
from .smi_settings import (
    COMPUTE_MODE,
    ECC,
    ECC_PENDING,
    ENFORCED,
    GRAPHICS,
    MEMORY,
    POWER,
    Gpu,
    SettingsError,
    Smi,
    read_gpus,
)

_UNIT = "bedplate-gpu-settings"
_FIX = f"drain the node and run `systemctl restart {_UNIT}`; `journalctl -u {_UNIT}` lists its changes"
# The driver takes the nearest clock that the GPU has.
_ABOVE = 1.05


def findings(wanted: Mapping[str, Any], smi: Smi) -> Iterator[Finding]:
    """Compare every GPU with the settings; without settings nothing runs."""
    if not wanted:
        return
    try:
        gpus = read_gpus(smi)
    except SettingsError as error:
        yield Finding("gpu-settings", "settings of the GPUs", "to be compared", str(error), _FIX)
        return
    for gpu in gpus:
        if gpu.failure:
            continue  # which is a finding about the GPU
        yield from _power(gpu, wanted)
        yield from _compute_mode(gpu, wanted)
        yield from _ecc(gpu, wanted)
        yield from _clock(gpu, "graphics", GRAPHICS, wanted.get("graphics_clock_max_mhz"))
        yield from _clock(gpu, "memory", MEMORY, wanted.get("memory_clock_mhz"))


def _power(gpu: Gpu, wanted: Mapping[str, Any]) -> Iterator[Finding]:
    watts = wanted.get("power_limit_watts")
    if watts is None:
        return
    limit, enforced = gpu.number(POWER), gpu.number(ENFORCED)
    where = f"power limit of GPU {gpu.address}"
    if limit is None or abs(limit - watts) > TOLERANCE:
        yield Finding("gpu-power", where, f"{watts} W", gpu.cells[POWER], _FIX)
    elif enforced is None or enforced < watts - TOLERANCE:
        fix = "another limit is lower: the BMC's, or that of nvidia-powerd; look for it in `nvidia-smi -q -d POWER`"
        yield Finding("gpu-power", where, f"{watts} W in force", gpu.cells[ENFORCED], fix)


def _compute_mode(gpu: Gpu, wanted: Mapping[str, Any]) -> Iterator[Finding]:
    mode = wanted.get("compute_mode")
    if mode and gpu.compute_mode != mode:
        yield Finding("gpu-compute-mode", f"compute mode of GPU {gpu.address}", mode, gpu.cells[COMPUTE_MODE], _FIX)


def _ecc(gpu: Gpu, wanted: Mapping[str, Any]) -> Iterator[Finding]:
    on = wanted.get("ecc")
    if on is None or (gpu.switch(ECC), gpu.switch(ECC_PENDING)) == (on, on):
        return
    found = f"{gpu.cells[ECC]}, after a reboot {gpu.cells[ECC_PENDING]}"
    postponed = gpu.switch(ECC_PENDING) is on
    fix = "drain the node and reboot it" if postponed else _FIX
    yield Finding("gpu-ecc", f"ECC of GPU {gpu.address}", "Enabled" if on else "Disabled", found, fix, reboot=postponed)


def _clock(gpu: Gpu, name: str, field: str, most: int | None) -> Iterator[Finding]:
    """Compare the current clock: the driver does not report a lock, and a GPU that is too hot or idle has a lower clock."""
    if most is None:
        return
    now = gpu.number(field)
    if now is None or now > most * _ABOVE:
        yield Finding("gpu-clock", f"{name} clock of GPU {gpu.address}", f"at most {most} MHz", gpu.cells[field], _FIX)
