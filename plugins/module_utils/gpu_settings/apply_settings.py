# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply power limit, clocks, ECC and compute mode to this machine's GPUs. bedplate-gpu-settings.service runs this at every boot.

Usage: python3 -m ...gpu_settings.apply_settings FILE. The file is JSON with the keys of `gpus.settings` of a profile; a missing key is not
changed. All GPUs get the same settings.

A GPU with the right settings is not changed. A GPU that a process or a job uses is not changed, and a change of ECC waits for a reboot:
both write a note to /run/bedplate/reboot-wanted/gpu_settings and exit with 0. Any other failure exits with 1. Nothing runs the program
when the job ends: the next run of the role does (`missing_settings.py`), or the next boot.

The driver does not report locked clocks, so those of an unused GPU are always locked again. For GPUs in use,
/run/bedplate/gpu-clocks.json records the locks with the inode of /sys/module/nvidia: a module that is loaded again has another one, and
has forgotten the locks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.files import atomic_write
from ..gpu.devices.gpu_users import GpuUsers
from ..primitives import reboot_notes
from .smi_settings import (
    ECC,
    ECC_PENDING,
    POWER,
    Gpu,
    SettingsError,
    Smi,
    read_gpus,
    run_nvidia_smi,
)

NOTE, RECORD, MODULE = "run/bedplate/reboot-wanted/gpu_settings", "run/bedplate/gpu-clocks.json", "sys/module/nvidia"
_NAMED = 5
# Watts. The driver keeps milliwatts and may round.
TOLERANCE = 1.0
# The driver takes the nearest clock that the GPU has.
ABOVE = 1.05

Settings = Mapping[str, Any]


class ClockRecord:
    """The clock locks that this program has set since the driver was loaded, by PCI address."""

    def __init__(self, root: Path) -> None:
        self.path, self.module = root / RECORD, root / MODULE
        self.locks: dict[str, str] = {}
        try:
            saved = json.loads(self.path.read_text(encoding="utf-8"))
            if saved["module"] == self._inode():
                self.locks = {str(address): str(text) for address, text in saved["locks"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # without a record the locks are set again

    def _inode(self) -> int:
        return self.module.stat().st_ino

    def add(self, address: str, text: str) -> None:
        """Record the locks of a GPU."""
        self.locks[address] = text
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        atomic_write(self.path, json.dumps({"module": self._inode(), "locks": self.locks}), sync=False)  # in memory


def locks_of(wanted: Settings) -> list[list[str]]:
    """Return the arguments of nvidia-smi that lock the clocks.

    >>> locks_of({"graphics_clock_max_mhz": 1500})
    [['--lock-gpu-clocks=0,1500']]
    """
    found = []
    if (most := wanted.get("graphics_clock_max_mhz")) is not None:
        found.append([f"--lock-gpu-clocks={wanted.get('graphics_clock_min_mhz', 0)},{most}"])
    if (memory := wanted.get("memory_clock_mhz")) is not None:
        found.append([f"--lock-memory-clocks={memory}"])
    return found


def changes_of(gpu: Gpu, wanted: Settings, recorded: str) -> list[list[str]]:
    """Return the arguments of each call of nvidia-smi that this GPU needs; `recorded` are its clock locks.

    SettingsError: a setting that the GPU lacks, or that nvidia-smi cannot read.
    """
    found = []
    if (watts := wanted.get("power_limit_watts")) is not None:
        now = gpu.number(POWER)
        if now is None:
            raise SettingsError(_unread(gpu, POWER))
        if abs(now - watts) > TOLERANCE:
            found.append([f"--power-limit={watts}"])
    if mode := wanted.get("compute_mode"):
        if gpu.compute_mode.startswith("["):
            raise SettingsError(_unread(gpu, "compute_mode"))
        if gpu.compute_mode != mode:
            found.append([f"--compute-mode={mode.upper()}"])
    if (ecc := wanted.get("ecc")) is not None:
        if gpu.switch(ECC_PENDING) is None:
            raise SettingsError(_unread(gpu, ECC_PENDING))
        if gpu.switch(ECC_PENDING) is not ecc:
            found.append([f"--ecc-config={int(ecc)}"])
    locks = locks_of(wanted)
    return [*found, *(locks if locks and recorded != text_of(locks) else [])]


def _unread(gpu: Gpu, field: str) -> str:
    return f"nvidia-smi prints {gpu.cells[field]!r} as its {field}: the GPU lacks this setting, or has failed (journalctl -k)"


def text_of(calls: Sequence[Sequence[str]]) -> str:
    """Return calls of nvidia-smi as text."""
    return " ".join(word for call in calls for word in call)


def apply(wanted: Settings, smi: Smi, node: GpuUsers, say: Callable[[str], None]) -> list[str]:
    """Apply the settings to every GPU; return what waits for a reboot. Raises SettingsError, after all GPUs were tried, if one failed."""
    waiting, failed, record = [], [], ClockRecord(node.root)
    gpus = read_gpus(smi)
    if not gpus:
        raise SettingsError("nvidia-smi lists no GPU")
    for gpu in gpus:
        try:
            reason = _apply_one(gpu, wanted, smi, node, record, say)
        except SettingsError as error:
            failed.append(f"GPU {gpu.address}: {error}")
        else:
            waiting += [reason] if reason else []
    if failed:
        raise SettingsError("\n".join([*failed, *waiting]))
    return waiting


def _apply_one(
    gpu: Gpu, wanted: Settings, smi: Smi, node: GpuUsers, record: ClockRecord, say: Callable[[str], None]
) -> str:
    """Apply the settings to one GPU; return why it waits for a reboot, or ""."""
    if gpu.failure:
        raise SettingsError(f"nvidia-smi prints '{gpu.failure}' (journalctl -k): drain the node and reboot it")
    calls, now = changes_of(gpu, wanted, recorded=""), gpu
    if calls and (users := users_of(gpu, node)):
        calls = changes_of(gpu, wanted, record.locks.get(gpu.address, ""))
        if calls:
            return held_back(gpu, calls, users)
    for call in calls:
        say(f"GPU {gpu.address}: {text_of([call])}")
        smi(["-i", gpu.address, *call])
    if calls:
        now, locks = _again(gpu, smi), text_of(locks_of(wanted))
        record.add(gpu.address, locks)
        if left := changes_of(now, wanted, locks):
            raise SettingsError(f"nvidia-smi reported success, but the GPU still needs {text_of(left)}")
    return postponed(now, wanted)


def users_of(gpu: Gpu, node: GpuUsers) -> list[str]:
    """Return the users of a GPU. SettingsError: they are unknown, so the GPU must not be changed."""
    if node.minor(gpu.address) is None:
        raise SettingsError("its device minor is not in /proc/driver/nvidia/gpus, so its users are unknown")
    return node.users(gpu.address)


def held_back(gpu: Gpu, calls: Sequence[Sequence[str]], users: Sequence[str]) -> str:
    """Describe the changes of a GPU that wait for its users."""
    return f"GPU {gpu.address} must get {text_of(calls)}, and is in use: {', '.join(users[:_NAMED])}"


def postponed(gpu: Gpu, wanted: Settings) -> str:
    """Describe the change of ECC that waits for a reboot; "" if ECC is in force."""
    ecc = wanted.get("ecc")
    if ecc is None or gpu.switch(ECC) is ecc:
        return ""
    return f"GPU {gpu.address} must have ECC {'on' if ecc else 'off'}, which the driver postpones until a reboot"


def _again(gpu: Gpu, smi: Smi) -> Gpu:
    found = next((one for one in read_gpus(smi) if one.address == gpu.address), None)
    if found is None:
        raise SettingsError("nvidia-smi does not list it any more. It may have fallen off the bus (journalctl -k)")
    return found


def settings_of(path: Path) -> dict[str, Any]:
    """Read the settings. Raises SettingsError if the file is not such JSON."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(f"{path}: {error!r}; run playbooks/gpu.yml again") from None


def main(arguments: Sequence[str], smi: Smi = run_nvidia_smi, node: GpuUsers | None = None) -> int:
    """Apply the settings of a file to this machine."""
    node = node or GpuUsers()
    try:
        waiting = apply(settings_of(Path(arguments[0])), smi, node, print)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    reboot_notes.note(node.root / NOTE, "\n".join(waiting), check=False)
    for reason in waiting:
        sys.stdout.write(
            f"waits for the next run of playbooks/gpu.yml when the GPU is free, or for a reboot: {reason}\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
