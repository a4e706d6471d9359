# SPDX-License-Identifier: GPL-3.0-or-later
"""List the probes of a node with their commands and deadlines, and turn their ends into readings."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...common.sysfs import Root
from ..facts.node_facts import Reading
from . import (
    advice,
    driver_probe,
    foreign_checks,
    huge_pages_probe,
    mount_probe,
    nvml,
    pci_probe,
    rdma_probe,
    reading_lines,
    run_probe,
    smi,
)
from .probe_child import Ended, ProbeChildren
from .probe_settings import ADVICE, ProbeSettings

PROGRAM = "ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.run_probe"
NVML, DRIVER = "nvml", "driver"
DRIVER_HANG = "driver-hang"
"""Deadlines that NVML missed in a row. Its source is procfs where the driver's own files do not answer, or /proc shows state D."""
MOUNT, FOREIGN = "mount:", "foreign:"
_LIMIT = 5.0  # seconds that run_probes waits beyond all deadlines


@dataclass(frozen=True)
class Probe:
    """Hold one kind of probe. `seconds`: its deadline. `every`: seconds between two runs. `quantities`: all that it may write.

    `run`: function that replaces the command in a forked child.
    """

    kind: str
    argv: tuple[str, ...]
    seconds: float
    every: int = 60
    quantities: tuple[str, ...] = ()
    source: str = "sysfs"
    more_sources: tuple[str, ...] = ()
    run: Callable[[], None] | None = None


def probes(
    settings: ProbeSettings, path: str, owner: int = 0, *, forks: bool = False
) -> tuple[list[Probe], list[Reading]]:
    """Return the probes of a node, and the readings of foreign checks that must not run. `path`: the file with the settings.

    `forks`: bedplate's own probes run in forked children, without a new Python; the agent does so.
    """

    def child(kind: str, seconds: float, quantities: tuple[str, ...], source: str, **more: Any) -> Probe:
        return Probe(
            kind,
            (sys.executable, "-S", "-m", PROGRAM, kind, path),
            seconds,
            quantities=quantities,
            source=source,
            run=partial(run_probe.write, kind, settings) if forks else None,
            **more,
        )

    found: list[Probe] = []
    if settings.has_gpus:
        found += [
            child(NVML, 30, nvml.QUANTITIES, nvml.SOURCE, more_sources=(smi.SOURCE,)),
            child(DRIVER, 10, driver_probe.QUANTITIES, driver_probe.SOURCE),
            child("pci", 15, pci_probe.QUANTITIES, pci_probe.SOURCE),
        ]
    if settings.has_rails:
        # mlx5 waits up to 60 s for a command of its firmware.
        found.append(child("rdma", 70, rdma_probe.QUANTITIES, rdma_probe.SOURCE))
    if settings.sizes:
        found.append(child("huge-pages", 10, huge_pages_probe.QUANTITIES, huge_pages_probe.SOURCE, every=300))
    found += [
        Probe(f"{MOUNT}{one}", tuple(mount_probe.stat_command(one)), 20, source=mount_probe.SOURCE)
        for one in settings.mounts
    ]
    found += [
        child(f"{ADVICE}{one}", 60, (advice.quantity(one),), one, every=300)
        for one in advice.SOURCES
        if getattr(settings, one)
    ]
    run, refused = foreign_checks.executables(Path(settings.checks), owner)
    found += [Probe(f"{FOREIGN}{one.name}", (str(one),), 30, source=one.name) for one in run]
    return found, refused


def readings_of(probe: Probe, ended: Ended, children: ProbeChildren, root: Root) -> list[Reading]:
    """Return the readings of a probe that ended or missed its deadline. Raises no exception."""
    missed = children.missed.get(probe.kind, 0)
    if probe.kind.startswith(MOUNT):
        mount = probe.kind[len(MOUNT) :]
        if ended.code is None:
            return mount_probe.hung(mount, probe.seconds, missed)
        return mount_probe.answered(root, mount, ended.code, ended.output)
    if probe.kind.startswith(FOREIGN):
        return foreign_checks.parse(probe.source, ended.code, ended.output, ended.problem)
    why = f"{probe.kind} ended with {ended.code}: {ended.problem}"
    if ended.code is None:
        why = f"{probe.kind} did not answer within {probe.seconds:g} s, {missed} times in a row"
    sources = (probe.source, *probe.more_sources)
    readings = reading_lines.parse(ended.output, probe.quantities, sources, probe.source, reading_lines.one_line(why))
    if ended.code not in (0, None):
        readings.append(reading_lines.unread(reading_lines.OUTPUT, "", probe.source, why))
    return [*readings, *_hang(probe, children)]


def readings_without(probe: Probe, children: ProbeChildren) -> list[Reading]:
    """Return the readings of a kind that was not started, because its last child does not end."""
    missed = children.missed.get(probe.kind, 0)
    if probe.kind.startswith(MOUNT):
        return mount_probe.hung(probe.kind[len(MOUNT) :], probe.seconds, missed)
    why = f"the last probe of {probe.kind} does not end; {missed} deadlines were missed in a row"
    names = probe.quantities or (f"{foreign_checks.PREFIX}{probe.source}",)
    return [*(reading_lines.unread(name, "", probe.source, why) for name in names), *_hang(probe, children)]


def _hang(probe: Probe, children: ProbeChildren) -> list[Reading]:
    """Return how often the driver did not answer. A child of NVML in state D is a second source, reported with the driver."""
    missed = children.missed.get(probe.kind, 0)
    if probe.kind == DRIVER:
        missed = max(missed, children.missed.get(NVML, 0) if children.is_unkillable(NVML) else 0)
    return [Reading(DRIVER_HANG, "", missed, probe.source)] if probe.kind in (NVML, DRIVER) else []


def begin(children: ProbeChildren, due: Iterable[Probe], root: Root) -> list[Reading]:
    """Start the probes that are due. Return the readings of absent mounts and of kinds that hang: these do not start."""
    readings: list[Reading] = []
    for probe in due:
        mount = probe.kind[len(MOUNT) :] if probe.kind.startswith(MOUNT) else ""
        if mount and mount_probe.is_mounted(root, mount) is False:
            readings += mount_probe.absent(mount)
        elif probe.kind not in children.running and not children.start(
            probe.kind, probe.run or probe.argv, probe.seconds
        ):
            readings += readings_without(probe, children)
    return readings


def collect(children: ProbeChildren, known: Sequence[Probe], root: Root) -> list[Reading]:
    """Return the readings of all probes that ended since the last call. Never blocks."""
    by_kind = {one.kind: one for one in known}
    return [
        reading
        for ended in children.poll()
        if ended.kind in by_kind
        for reading in readings_of(by_kind[ended.kind], ended, children, root)
    ]


def run_probes(
    children: ProbeChildren,
    due: Sequence[Probe],
    root: Root,
    *,
    pause: float = 0.05,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Reading]:
    """Run probes, and return the readings of all. Takes at most the longest deadline and a few seconds."""
    readings = begin(children, due, root)
    end = children.clock() + max((one.seconds for one in due), default=0.0) + _LIMIT
    while children.running and children.clock() < end:
        sleep(pause)
        readings += collect(children, due, root)
    return readings
