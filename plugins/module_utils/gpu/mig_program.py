# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply a layout of MIG mode and MIG instances to this machine's GPUs. bedplate-mig.service runs this at every boot.

Usage: python3 -m ...gpu.mig_program LAYOUT. The layout is JSON, {"gpus": [["3g.40gb"], []]}: for each GPU in the order of PCI addresses
the profiles of its instances in the order of creation; an empty list is a whole GPU.

A GPU with the right layout is not changed. A GPU that a process or a job uses is not changed, and a change of mode that the driver
postpones waits for a reboot: both write a note to /run/bedplate/reboot-wanted/mig and exit with 0. Any other failure exits with 1.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..common.command import run
from ..primitives import reboot_notes
from .devices.gpu_users import GpuUsers

NOTE = "run/bedplate/reboot-wanted/mig"
QUERY = ("pci.bus_id", "uuid", "mig.mode.current", "mig.mode.pending")
# nvidia-smi takes seconds per GPU; one that hangs is abandoned.
_SECONDS = 120.0
_ADDRESS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])\Z")
_GPU = re.compile(r"GPU\s+\d+:.*\(UUID: (GPU-[^)]+)\)\s*\Z")
_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:")
_MODES = {"Enabled": True, "Disabled": False, "[N/A]": None, "N/A": None, "[Not Supported]": None}

# Takes the arguments of nvidia-smi and returns its output. Raises MigError if it failed.
Smi = Callable[[Sequence[str]], str]


class MigError(Exception):
    """Describe a failure and its remedy."""


@dataclass(frozen=True)
class Gpu:
    """A GPU: PCI address as in sysfs, MIG mode now and after the next reset (None: not supported), profiles of its instances."""

    address: str
    uuid: str
    mode: bool | None
    pending: bool | None
    instances: tuple[str, ...] = ()


def parse_gpus(text: str) -> list[Gpu]:
    """Parse `nvidia-smi --query-gpu=QUERY --format=csv,noheader`, ordered by PCI address."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        values = [value.strip() for value in line.split(",")]
        match = _ADDRESS.match(values[0])
        if match is None or len(values) != len(QUERY):
            raise MigError(f"nvidia-smi: {line.strip()!r} is not {', '.join(QUERY)} of a GPU")
        # A GPU that fails prints its error in these cells; it is not a GPU without MIG.
        if unknown := [value for value in values[2:] if value not in _MODES]:
            raise MigError(
                f"nvidia-smi: {line.strip()!r}: {unknown[0]!r} is not a MIG mode; allowed: {', '.join(_MODES)}"
            )
        domain, bus, slot, function = match.groups()
        address = f"{int(domain, 16):04x}:{bus}:{slot}.{function}".lower()
        found.append(Gpu(address, values[1], _MODES[values[2]], _MODES[values[3]]))
    return sorted(found, key=lambda gpu: gpu.address)


def parse_listing(text: str) -> dict[str, tuple[str, ...]]:
    """Parse `nvidia-smi -L`: the UUID of a GPU -> profiles of its MIG devices."""
    found: dict[str, tuple[str, ...]] = {}
    last = ""
    for line in filter(str.strip, text.splitlines()):
        if match := _GPU.match(line):
            last = match[1]
            found[last] = ()
        elif (match := _INSTANCE.match(line)) and last:
            found[last] += (match[1],)
        else:
            raise MigError(f"nvidia-smi -L: {line.strip()!r} is neither a GPU nor a MIG device")
    return found


def read_gpus(smi: Smi) -> list[Gpu]:
    """Return the GPUs of this machine with their instances."""
    gpus = parse_gpus(smi([f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]))
    listed = parse_listing(smi(["-L"]))
    return [Gpu(one.address, one.uuid, one.mode, one.pending, listed.get(one.uuid, ())) for one in gpus]


class ProcFiles(GpuUsers):
    """Reader of this machine's /proc, with the instances of its GPUs."""

    def instances(self, address: str) -> tuple[int, int]:
        """Return the numbers of GPU instances and compute instances, including instances without a device yet."""
        base = self.root / f"proc/driver/nvidia/capabilities/gpu{self.minor(address)}/mig"
        return len(list(base.glob("gi[0-9]*"))), len(list(base.glob("gi[0-9]*/ci[0-9]*")))

    def note(self, reasons: Sequence[str]) -> None:
        """Write the reasons for a reboot, or remove the note."""
        reboot_notes.note(self.root / NOTE, "\n".join(reasons), check=False)


def is_right(gpu: Gpu, wanted: Sequence[str], instances: int) -> bool:
    """Return whether a GPU has the desired layout, now and after the next reset; `instances` is its number of GPU instances."""
    if gpu.mode is None:
        return not wanted
    modes = (gpu.mode, gpu.pending) == (bool(wanted), bool(wanted))
    return modes and sorted(gpu.instances) == sorted(wanted) and instances == len(wanted)


def apply(layouts: Sequence[Sequence[str]], smi: Smi, node: ProcFiles, say: Callable[[str], None]) -> list[str]:
    """Apply its layout to every GPU; return what waits for a reboot. Raises MigError, after all GPUs were tried, if one failed."""
    gpus = read_gpus(smi)
    if len(gpus) != len(layouts):
        raise MigError(
            f"the layout is for {len(layouts)} GPUs, and nvidia-smi has {len(gpus)} ({', '.join(one.address for one in gpus)}): nothing "
            f"is changed, since the layout could go to the wrong GPUs. A GPU may have fallen off the bus"
        )
    waiting, failed = [], []
    for gpu, wanted in zip(gpus, layouts):
        try:
            reason = _apply_one(gpu, wanted, smi, node, say)
        except MigError as error:
            failed.append(f"GPU {gpu.address}: {error}")
        else:
            waiting += [reason] if reason else []
    if failed:
        raise MigError("\n".join([*failed, *waiting]))
    return waiting


def _apply_one(gpu: Gpu, wanted: Sequence[str], smi: Smi, node: ProcFiles, say: Callable[[str], None]) -> str:
    """Apply a layout to one GPU; return why it waits for a reboot, or ""."""
    if is_right(gpu, wanted, node.instances(gpu.address)[0]):
        return ""
    if gpu.mode is None:
        raise MigError("it does not support MIG, but the layout has instances for it")
    if node.minor(gpu.address) is None:
        raise MigError("its device minor is not in /proc/driver/nvidia/gpus, so its users are unknown")
    if users := node.users(gpu.address):
        return f"GPU {gpu.address} must have {_text(wanted)}, has {_text(gpu.instances)}, and is in use: {', '.join(users[:5])}"
    split = is_right(replace(gpu, pending=gpu.mode), wanted, node.instances(gpu.address)[0])
    if not split:
        _destroy(gpu, smi, node, say)
    if (gpu.mode, gpu.pending) != (bool(wanted), bool(wanted)) and not _switch(gpu, bool(wanted), smi, say):
        return f"GPU {gpu.address} must have MIG mode {'on' if wanted else 'off'}, which the driver postpones until a reboot"
    if wanted and not split:
        say(f"GPU {gpu.address}: {_text(wanted)}")
        smi(["mig", "-i", gpu.address, "-cgi", ",".join(wanted), "-C"])
    now = _again(gpu, smi)
    if not is_right(now, wanted, node.instances(gpu.address)[0]):
        raise MigError(
            f"nvidia-smi reported success, but the GPU has {_text(now.instances)} instead of {_text(wanted)}"
        )
    return ""


def _switch(gpu: Gpu, on: bool, smi: Smi, say: Callable[[str], None]) -> bool:
    """Switch the MIG mode; return whether it is in force. Without a reset, or with a daemon on the GPU, the driver postpones it."""
    say(f"GPU {gpu.address}: MIG mode {'on' if on else 'off'}")
    try:
        smi(["-i", gpu.address, "-mig", "1" if on else "0"])
    except MigError as error:
        if "in use by another client" not in str(error).lower() and _again(gpu, smi).pending is not on:
            raise
    return _again(gpu, smi).mode is on


def _again(gpu: Gpu, smi: Smi) -> Gpu:
    found = next((one for one in read_gpus(smi) if one.address == gpu.address), None)
    if found is None:
        raise MigError("nvidia-smi does not list it any more. It may have fallen off the bus (journalctl -k)")
    return found


def _destroy(gpu: Gpu, smi: Smi, node: ProcFiles, say: Callable[[str], None]) -> None:
    whole, parts = node.instances(gpu.address)
    if whole:
        say(f"GPU {gpu.address}: destroy {_text(gpu.instances)}")
    if parts:
        smi(["mig", "-i", gpu.address, "-dci"])
    if whole:
        smi(["mig", "-i", gpu.address, "-dgi"])


def _text(profiles: Iterable[str]) -> str:
    counted: Mapping[str, int] = {}
    for one in profiles:
        counted = {**counted, one: counted.get(one, 0) + 1}
    return ", ".join(f"{count} x {name}" for name, count in counted.items()) or "no instances"


def run_nvidia_smi(arguments: Sequence[str]) -> str:
    """Run nvidia-smi and return its output. Raises MigError if it fails or does not answer."""
    done = run(["nvidia-smi", *arguments], _SECONDS)
    if done.code == 0:
        return done.stdout + done.stderr
    shown = " ".join(["nvidia-smi", *arguments])
    if done.code is None:
        raise MigError(f"{shown}: no answer within {_SECONDS:g} s; a GPU or the driver hangs (journalctl -k)")
    raise MigError(f"{shown} ended with {done.code}: {' '.join((done.stdout + done.stderr).split())}")


def layouts_of(path: Path) -> list[list[str]]:
    """Read the layout. Raises MigError if the file is not a layout."""
    try:
        gpus = json.loads(path.read_text(encoding="utf-8"))["gpus"]
        return [[str(profile) for profile in one] for one in gpus]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MigError(f"{path}: {error!r}; run playbooks/gpu.yml again") from None


def main(arguments: Sequence[str], smi: Smi = run_nvidia_smi, node: ProcFiles | None = None) -> int:
    """Apply the layout of a file to this machine."""
    node = node or ProcFiles()
    try:
        waiting = apply(layouts_of(Path(arguments[0])), smi, node, print)
    except MigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    node.note(waiting)
    for reason in waiting:
        sys.stdout.write(f"waits for a reboot, or `systemctl restart bedplate-mig` on the drained node: {reason}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
