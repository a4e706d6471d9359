# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write the notes of roles that need a reboot, and find work that a reboot would end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..common.files import atomic_write
from ..common.processes import DAEMONS, STEP, is_step, target

# The kernel keeps 15 characters of a process's name.
_DAEMON = "slurmd"
# docker and containerd; podman and CRI-O. One process for each container.
_CONTAINERS = ("containerd-shim", "conmon", "conmonrs")
_GPU = re.compile(r"/dev/nvidia[0-9]+\Z")
_NAMED = 5


@dataclass(frozen=True)
class _Process:
    number: int
    name: str
    step: bool
    gpu: bool


# In memory: a reboot removes the notes.
NOTES = Path("run/bedplate/reboot-wanted")


def note(path: Path, reason: str, check: bool) -> bool:
    """Write or remove ("") the reason for a reboot at a path; return whether that changed anything."""
    text = f"{reason}\n" if reason else None
    there = path.read_text(errors="replace") if path.exists() else None
    if text == there or check:
        return text != there
    if text is None:
        path.unlink()
    else:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        atomic_write(path, text, sync=False)  # in memory
    return True


def reasons(notes: Path) -> dict[str, str]:
    """Return role -> its reason for a reboot."""
    if not notes.is_dir():
        return {}
    # A killed writer leaves a temporary file whose name begins with a dot.
    found = [path for path in sorted(notes.iterdir()) if path.is_file() and not path.name.startswith(".")]
    return {path.name: path.read_text(errors="replace").strip() for path in found}


def jobs(proc: Path = Path("/proc")) -> list[str]:
    """Return the work on this machine: job steps, containers, processes with an open GPU. A slurmd without steps does not count."""
    return _work(list(_processes(proc)))


def in_use(proc: Path = Path("/proc")) -> list[str]:
    """Return what a reboot would end, or what may start jobs meanwhile: the work on this machine, and slurmd."""
    processes = list(_processes(proc))
    found = _work(processes)
    if any(one.name == _DAEMON for one in processes):
        found.append(f"{_DAEMON} runs and may get a job at any moment: drain the node and stop {_DAEMON} first")
    return found


def _work(processes: Iterable[_Process]) -> list[str]:
    processes = sorted(processes, key=lambda one: one.number)
    steps = [one for one in processes if one.step]
    containers = [one for one in processes if one.name in _CONTAINERS]
    users = [f"{one.name} ({one.number})" for one in processes if one.gpu]
    found = []
    if steps:
        found.append(f"{len(steps)} steps of jobs run ({STEP})")
    if containers:
        found.append(f"{len(containers)} containers run ({', '.join(sorted({one.name for one in containers}))})")
    if users:
        more = f" and {len(users) - _NAMED} more" if len(users) > _NAMED else ""
        found.append(f"GPUs are in use: {', '.join(users[:_NAMED])}{more}")
    return found


def _processes(proc: Path) -> Iterator[_Process]:
    for path in proc.glob("[0-9]*"):
        try:
            name = (path / "comm").read_text(errors="replace").strip()
        except OSError:
            continue  # it has ended
        gpu = name not in (STEP, *DAEMONS) and _has_gpu(path)
        yield _Process(int(path.name), name, is_step(path, name), gpu)


def _has_gpu(process: Path) -> bool:
    try:
        return any(_GPU.match(target(link)) for link in (process / "fd").iterdir())
    except OSError:
        return False  # it has ended
