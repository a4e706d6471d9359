# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the settings that GPUs of this machine lack while their unit is active: they waited for a job, or were changed by hand.

The unit bedplate-gpu-settings does it, so that its journal lists all changes. A GPU in use keeps its settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..gpu.devices.gpu_users import GpuUsers
from ..primitives import reboot_notes
from .apply_settings import (
    ABOVE,
    NOTE,
    ClockRecord,
    Settings,
    changes_of,
    held_back,
    postponed,
    text_of,
    users_of,
)
from .smi_settings import GRAPHICS, MEMORY, Gpu, SettingsError, Smi, read_gpus


@dataclass
class Missing:
    """Settings that GPUs lack, one line for each GPU.

    `unused`: of unused GPUs. `waiting`: they wait for a job or a reboot. `problems`: why a comparison failed.
    """

    unused: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """Result of `apply`: what changed, or will in check mode; what still waits; why a comparison or a restart was not enough."""

    changes: list[str]
    waiting: list[str]
    problems: list[str]


def missing(wanted: Settings, smi: Smi, node: GpuUsers) -> Missing:
    """Compare all GPUs with their settings, and with the recorded locks of their clocks. A failed GPU is left to verify."""
    found, record = Missing(), ClockRecord(node.root)
    try:
        gpus = read_gpus(smi)
    except SettingsError as error:
        return Missing(problems=[str(error)])
    for gpu in gpus:
        if gpu.failure:
            continue
        try:
            calls = changes_of(gpu, wanted, _locks(gpu, wanted, record))
            if calls and (users := users_of(gpu, node)):
                found.waiting.append(held_back(gpu, calls, users))
            elif calls:
                found.unused.append(f"GPU {gpu.address}: {text_of(calls)}")
            elif reason := postponed(gpu, wanted):
                found.waiting.append(reason)
        except SettingsError as error:
            found.problems.append(f"GPU {gpu.address}: {error}")
    return found


def _locks(gpu: Gpu, wanted: Settings, record: ClockRecord) -> str:
    """Return the recorded locks of a GPU; "" if its clock is above one. The driver does not report locks."""
    limits = {GRAPHICS: wanted.get("graphics_clock_max_mhz"), MEMORY: wanted.get("memory_clock_mhz")}
    clocks = {field: gpu.number(field) for field in limits}
    above = (most and now and now > most * ABOVE for now, most in zip(clocks.values(), limits.values()))
    return "" if any(above) else record.locks.get(gpu.address, "")


def apply(wanted: Settings, smi: Smi, node: GpuUsers, restart: Callable[[], None], check: bool) -> Outcome:
    """Apply missing settings to unused GPUs. `restart` restarts the unit; it may raise.

    The note that settings wait goes when nothing waits any more, as after the settings have left the cluster file.
    """
    found = missing(wanted, smi, node) if wanted else Missing()
    changes = list(found.unused)
    if changes and not check:
        restart()
        found = missing(wanted, smi, node)
        found.problems += [f"{line} is still missing after a restart of the unit" for line in found.unused]
    is_settled = not (found.unused or found.waiting or found.problems)
    if is_settled and reboot_notes.note(node.root / NOTE, "", check):
        changes.append(f"/{NOTE}: removed, since nothing waits")
    return Outcome(changes, found.waiting, found.problems)
