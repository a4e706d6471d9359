# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of probes and the table of thresholds name the same quantities."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import NodeProfile
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import (
    all_probes,
    mount_probe,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_settings import ProbeSettings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables import thresholds

ALL = ProbeSettings(
    has_gpus=True, has_rails=True, sizes=("1G",), mounts=("/",), dcgm="dcgmi", gpud="url", validation="path", checks=""
)


def written() -> set[str]:
    """Return all quantities that probes may write."""
    found, _refused = all_probes.probes(ALL, "")
    return {all_probes.DRIVER_HANG, *mount_probe.QUANTITIES, *(name for one in found for name in one.quantities)}


def judged() -> set[str]:
    return {row.reads for row in thresholds.rows_for(NodeProfile()).values()}


def test_each_quantity_has_a_row():
    # Rows of advice and of foreign checks are for all names below them.
    assert {one for one in written() if one.partition("/")[0] not in judged()} == set()


def test_kinds_are_distinct():
    kinds = [one.kind for one in all_probes.probes(ALL, "")[0]]
    assert len(kinds) == len(set(kinds))
    assert kinds[0] == all_probes.NVML  # its missed deadlines are counted before the driver's probe reports them
