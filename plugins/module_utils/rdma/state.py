# SPDX-License-Identifier: GPL-3.0-or-later
"""All that the role rdma manages on a machine, read back and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.remedies import again
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root, Runner, run
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import (
    devices,
    link_state,
    links,
    names,
    roce,
    stack,
    topology,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.state import modprobe

NCCL = "etc/nccl.conf"


def drift(root: Root, expected: Mapping[str, Any], run: Runner = run) -> Iterator[Finding]:
    """Yield every difference. `expected` is that of the filter rdma."""
    settings = expected["settings"]
    nics = devices.nics_from(settings["nics"])
    yield from stack.drift(root, expected, run)
    there = devices.read_devices(root)
    yield from names.drift(root, there, nics)
    yield from links.drift(root, there, nics, run)
    yield from link_state.findings(root, there, nics, expected["links"], run)
    if settings["roce"]:
        yield from roce.drift(root, there, nics, settings["roce"], run)
    if settings["topology"]:
        yield from topology.drift(root, nics)
    yield from _nccl(root, expected["nccl"])
    yield from modprobe.findings(root, expected, run)


def _nccl(root: Root, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Compare what NCCL reads: of several lines with a key the last one counts."""
    lines = (root.text(NCCL, needed=False) or "").splitlines() if wanted else []
    there = dict(line.partition("=")[::2] for line in lines if "=" in line and not line.startswith("#"))
    for key, value in wanted.items():
        if there.get(key) != value:
            yield Finding(
                "nccl", f"{key} in /{NCCL}", value, there.get(key, "none"), f"{again('rdma')}; who changed it?"
            )
