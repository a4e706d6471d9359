# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare power limit, clocks, ECC and compute mode of a machine's GPUs with the cluster file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..common.finding import WARNING, Finding
from ..common.remedies import run_role_again
from ..gpu.devices.gpu_users import GpuUsers
from .apply_settings import ABOVE, TOLERANCE
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
_FIX = f"{run_role_again('gpu_driver')}, which sets unused GPUs; `journalctl -u {_UNIT}` lists the changes"
# A running job outranks a setting, so this is no failure.
_HELD = f"{run_role_again('gpu_driver')} when the GPU is unused; now in use"
_NAMED = 5


def findings(wanted: Mapping[str, Any], smi: Smi, node: GpuUsers) -> Iterator[Finding]:
    """Compare every GPU with the settings; without settings nothing runs. On a GPU in use a missing setting is a warning."""
    if not wanted:
        return
    try:
        gpus = read_gpus(smi)
    except SettingsError as error:
        yield Finding("gpu-settings", "settings of the GPUs", "to be compared", str(error), _FIX)
        return
    for gpu in gpus:
        # A failure is a finding about the GPU.
        if not gpu.failure:
            yield from _weighed(list(_of(gpu, wanted)), gpu, node)


def _of(gpu: Gpu, wanted: Mapping[str, Any]) -> Iterator[Finding]:
    yield from _power(gpu, wanted)
    yield from _compute_mode(gpu, wanted)
    yield from _ecc(gpu, wanted)
    yield from _clock(gpu, "graphics", GRAPHICS, wanted.get("graphics_clock_max_mhz"))
    yield from _clock(gpu, "memory", MEMORY, wanted.get("memory_clock_mhz"))


def _weighed(found: list[Finding], gpu: Gpu, node: GpuUsers) -> Iterator[Finding]:
    """Yield the findings of a GPU. A setting that waits for the users of the GPU is a warning."""
    users = node.users(gpu.address) if any(one.remedy == _FIX for one in found) else []
    for one in found:
        if users and one.remedy == _FIX:
            yield replace(one, severity=WARNING, remedy=f"{_HELD}: {', '.join(users[:_NAMED])}")
        else:
            yield one


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
    if now is None or now > most * ABOVE:
        yield Finding("gpu-clock", f"{name} clock of GPU {gpu.address}", f"at most {most} MHz", gpu.cells[field], _FIX)
