# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether a node's release of Slurm may work under that of slurmctld, as during an upgrade."""

from __future__ import annotations

# In their order, from Slurm's documentation (upgrades.shtml): one more belongs here with each release.
RELEASES = ("20.11", "21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05")
# From 24.11 on slurmctld takes daemons of the three releases before, until then of two.
_WIDER_FROM = RELEASES.index("24.11")


def release_of(version: str) -> str:
    """Return the release of a version.

    >>> release_of("24.11.5")
    '24.11'
    """
    return ".".join(version.split(".")[:2])


def works_under(node: str, controller: str) -> bool:
    """Return whether a slurmd of version `node` works under a slurmctld of version `controller`; False for unknown releases.

    >>> works_under("24.11.5", "26.05.5"), works_under("22.05.8", "24.11.5"), works_under("26.05.5", "24.11.5")
    (True, False, False)
    """
    node, controller = release_of(node), release_of(controller)
    if node not in RELEASES or controller not in RELEASES:
        return node == controller
    at = RELEASES.index(controller)
    return 0 <= at - RELEASES.index(node) <= (3 if at >= _WIDER_FROM else 2)
