# SPDX-License-Identifier: GPL-3.0-or-later
"""Define a finding about the health of a node: a finding with a class, which alone decides what happens to the node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...common.finding import ERROR, NOTICE, WARNING, Finding

CANNOT_RUN, RMA, RESET, DEGRADED, TRANSIENT, NOTE = CLASSES = (
    "cannot-run",
    "rma",
    "reset",
    "degraded",
    "transient",
    "note",
)
"""Classes, the worst first.

cannot-run: no job can run on the node. rma: a part must be replaced. reset: a GPU reset or a reboot repairs it. degraded: jobs run, but
slower or at risk. transient: it ends without anybody's help. note: for people; the node stays in service.
"""
_SEVERITY = {TRANSIENT: WARNING, NOTE: NOTICE}


@dataclass(frozen=True)
class HealthFinding(Finding):
    """Hold a finding with its class. `kind` is the id of the check, such as `gpu-remap-failed`.

    `device`: PCI address, name of an HCA or mount point; "" for the node. `sources`: what it was seen in, such as `nvml`, `kernel-log`,
    `procfs`, `sysfs`; sources that can fail for the same reason count once. `unread`: the quantity could not be read, so it is not known
    whether the node is well.
    """

    health_class: str = NOTE
    device: str = ""
    sources: tuple[str, ...] = ()
    unread: bool = False


def finding(
    check: str,
    health_class: str,
    found: str,
    *,
    device: str = "",
    expected: str = "",
    remedy: str = "",
    sources: tuple[str, ...] = (),
    unread: bool = False,
) -> HealthFinding:
    """Return a finding; its severity follows from its class. ValueError: an unknown class."""
    if health_class not in CLASSES:
        raise ValueError(f"class {health_class!r}; allowed: {', '.join(CLASSES)}")
    return HealthFinding(
        kind=check,
        where=device or "node",
        expected=expected,
        found=found,
        remedy=remedy,
        severity=_SEVERITY.get(health_class, ERROR),
        health_class=health_class,
        device=device,
        sources=sources,
        unread=unread,
    )


def worst(classes: Iterable[str]) -> str:
    """Return the worst of some classes, "" without one.

    >>> worst(["note", "reset", "degraded"])
    'reset'
    """
    return min(classes, key=CLASSES.index, default="")
