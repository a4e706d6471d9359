# SPDX-License-Identifier: GPL-3.0-or-later
"""Notes of roles that want a reboot, and what a reboot would end."""

from __future__ import annotations

from pathlib import Path

# A process's name as the kernel keeps it has 15 characters.
_STEP, _DAEMON = "slurmstepd", "slurmd"


def reasons(notes: Path) -> dict[str, str]:
    """Return who wants a reboot -> why."""
    if not notes.is_dir():
        return {}
    return {path.name: path.read_text(errors="replace").strip() for path in sorted(notes.iterdir()) if path.is_file()}


def in_use(proc: Path = Path("/proc")) -> list[str]:
    """Return what a reboot would end, or what may start jobs meanwhile."""
    names: dict[str, int] = {}
    for path in proc.glob("[0-9]*/comm"):
        try:
            name = path.read_text(errors="replace").strip()
        except OSError:
            continue  # it has ended
        names[name] = names.get(name, 0) + 1
    found = []
    if names.get(_STEP):
        found.append(f"{names[_STEP]} steps of jobs run ({_STEP})")
    if names.get(_DAEMON):
        found.append(f"{_DAEMON} runs and may get a job at any moment: drain the node and stop {_DAEMON} first")
    return found
