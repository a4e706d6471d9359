# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the MIG layout of a machine's GPUs with the cluster file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..common.command import Outcome
from ..common.finding import Finding
from .mig_program import MigError, parse_listing

_FIX = "drain the node and run `systemctl restart bedplate-mig`; `journalctl -u bedplate-mig` says what it did"


def listing(run: Callable[[list[str]], Outcome]) -> dict[str, tuple[str, ...]] | str:
    """Return the profiles of each GPU's instances by UUID, from nvidia-smi; a text is the reason why they are unknown."""
    said = run(["nvidia-smi", "-L"])
    if said.code != 0:
        return f"nvidia-smi -L: {'no answer' if said.code is None else f'ended with {said.code}'}"
    try:
        return parse_listing(said.stdout)
    except MigError as error:
        return str(error)


def findings(
    wanted: Sequence[Sequence[str]], gpu: Mapping[str, Any], listed: Mapping[str, Sequence[str]] | None
) -> Iterator[Finding]:
    """Compare the GPUs, ordered by address, with the desired profiles; with `listed` by name, else by count."""
    if not wanted or not gpu["gpus"] or gpu["driver"]["version"] is None:
        return  # missing devices are reported elsewhere
    if len(gpu["gpus"]) != len(wanted):
        found = ", ".join(one["address"] for one in gpu["gpus"])
        yield Finding(
            "gpu-count", "GPUs", f"{len(wanted)}", f"{len(gpu['gpus'])} ({found})", "no layout is set on the others"
        )
        return
    for one, profiles in zip(gpu["gpus"], wanted):
        if one["mig_instances"] is None:
            yield Finding("mig", f"MIG of GPU {one['address']}", _text(profiles), "not known", _FIX)
            continue
        names = None if listed is None else listed.get(one["uuid"])
        whole = sum(1 for instance in one["mig_instances"] if instance["ci"])
        broken = len(one["mig_instances"]) - whole
        if names is not None and sorted(names) != sorted(profiles):
            yield Finding("mig", f"MIG of GPU {one['address']}", _text(profiles), _text(names), _FIX)
        elif whole != len(profiles) or broken:
            found = f"{whole} instances" + (f" and {broken} without a compute instance" if broken else "")
            yield Finding("mig", f"MIG of GPU {one['address']}", _text(profiles), found, _FIX)


def split_gpus(gpu: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield GPUs in MIG mode on a machine whose whole GPUs Slurm gives to jobs."""
    for one in gpu["gpus"] if gpu["driver"]["version"] is not None else ():
        instances = len(one["mig_instances"] or ())
        if one["mig"] or instances:
            yield Finding(
                "mig",
                f"MIG of GPU {one['address']}",
                "off, since the cluster file has no `mig` for it",
                f"on, with {instances} instances",
                f"drain the node and `nvidia-smi -i {one['address']} -mig 0`, then reboot it; or state `mig` for the profile",
            )


def _text(profiles: Sequence[str]) -> str:
    counts = {name: list(profiles).count(name) for name in profiles}
    return ", ".join(f"{count} x {name}" for name, count in counts.items()) or "a whole GPU"
