# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide from the profile which readings a node must have. An absent service or file never decides that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..facts.health_finding import NOTE, HealthFinding, finding
from ..facts.node_facts import NodeProfile, Reading
from ..tables.threshold_row import (
    ALWAYS,
    CHECK,
    GPU,
    GPUS,
    HUGE_PAGE,
    HUGE_PAGES,
    MOUNT,
    MOUNTS,
    NVLINK,
    RAIL,
    RAILS,
    ThresholdRow,
)
from .sources import device_key

NOT_SUPPORTED = "not supported"
"""Start of `Reading.problem` if the device or the driver does not have the quantity. Only an `optional` row accepts it."""


def applies(row: ThresholdRow, profile: NodeProfile) -> bool:
    """Return whether a row is judged on nodes of a profile."""
    return {
        ALWAYS: True,
        GPUS: profile.gpus > 0,
        NVLINK: profile.gpus > 0 and profile.nvlink,
        RAILS: bool(profile.rails),
        MOUNTS: bool(profile.mounts),
        HUGE_PAGES: bool(profile.huge_pages),
    }.get(row.applies, False)


def is_expected(row: ThresholdRow, device: str, profile: NodeProfile) -> bool:
    """Return whether a row judges a device: a rail, a mount point or a size of pages that the profile does not name is not judged."""
    if not applies(row, profile):
        return False
    if row.per == RAIL:
        # Without a name the whole probe failed, so the rails of the profile are unread.
        return not device or any(_is_port_of(device, rail) for rail in profile.rails)
    if row.per == MOUNT:
        return not device or device in profile.mounts
    return row.per != HUGE_PAGE or not device or device in profile.huge_pages


def unread(check: str, device: str, why: str, sources: tuple[str, ...] = ()) -> HealthFinding:
    """Return the finding of a quantity that was not read."""
    return finding(
        check,
        NOTE,
        f"not read: {why}",
        device=device,
        remedy="Check the agent's log; the node is not known to be well.",
        sources=sources,
        unread=True,
    )


def missing(rows: Iterable[ThresholdRow], readings: Iterable[Reading], profile: NodeProfile) -> Iterator[HealthFinding]:
    """Yield a finding for each reading that the profile needs and no source reported."""
    seen: dict[str, set[str]] = {}
    for reading in readings:
        seen.setdefault(reading.quantity, set()).add(device_key(reading.device))
    needed: Mapping[str, ThresholdRow] = {
        row.reads: row for row in rows if not row.optional and row.per != CHECK and applies(row, profile)
    }
    for quantity, row in needed.items():
        yield from _missing(quantity, row, seen.get(quantity, set()), profile)


def _missing(quantity: str, row: ThresholdRow, devices: set[str], profile: NodeProfile) -> Iterator[HealthFinding]:
    if row.per == GPU:
        count = len(devices - {""})
        if count < profile.gpus:
            yield unread(quantity, "", f"{count} of {profile.gpus} GPUs have a reading")
        return
    expected: Iterable[str] = {RAIL: profile.rails, MOUNT: profile.mounts, HUGE_PAGE: profile.huge_pages}.get(
        row.per, ("",)
    )
    for one in expected:
        if not any(device == one or (row.per == RAIL and _is_port_of(device, one)) for device in devices):
            yield unread(quantity, one, "no source reported it")


def _is_port_of(device: str, rail: str) -> bool:
    return device == rail or device.partition("/")[0] == rail
