# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and compare everything that the role rdma manages on a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..common.command import Runner, run_quick
from ..common.finding import Finding
from ..common.remedies import run_role_again
from ..common.sysfs import Root
from ..drift import modprobe
from . import (
    device_names,
    link_state,
    nccl_topology_file,
    rail_interfaces,
    rail_owners,
    rdma_devices,
    rdma_software,
    roce,
)

NCCL = "etc/nccl.conf"


def drift(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Yield every difference. `expected` is that of the filter rdma."""
    settings = expected["settings"]
    nics = rdma_devices.nics_from(settings["nics"])
    yield from rdma_software.drift(root, expected, run)
    there = rdma_devices.read_devices(root)
    yield from device_names.drift(root, there, nics)
    yield from rail_owners.drift(root, there, nics, settings["management"], run)
    yield from rail_interfaces.drift(root, there, nics, run)
    yield from link_state.findings(root, there, nics, expected["links"], run)
    if settings["roce"]:
        yield from roce.drift(root, there, nics, settings["roce"], run)
    if settings["topology"]:
        yield from nccl_topology_file.drift(root, nics)
    yield from _nccl(root, expected["nccl"])
    yield from _sockets(root, expected["socket_interfaces"])
    yield from modprobe.findings(root, expected, run)


def _nccl(root: Root, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """Compare NCCL's settings: of several lines with one key, the last one counts."""
    lines = (root.text(NCCL, needed=False) or "").splitlines() if wanted else []
    there = dict(line.partition("=")[::2] for line in lines if "=" in line and not line.startswith("#"))
    for key, value in wanted.items():
        if there.get(key) != value:
            yield Finding(
                "nccl", f"{key} in /{NCCL}", value, there.get(key, "none"), f"{run_role_again('rdma')}; who changed it?"
            )


def _sockets(root: Root, wanted: Sequence[str]) -> Iterator[Finding]:
    """Look for the interfaces by which NCCL connects; without one, no job of several nodes starts."""
    if wanted and not any(root.exists(f"sys/class/net/{name}") for name in wanted):
        found = ", ".join(name for name in root.names("sys/class/net") if name != "lo") or "no interface"
        remedy = "correct rdma_nccl_socket_interfaces"
        yield Finding("nccl-socket", "interface of NCCL's connections", " or ".join(wanted), found, remedy)
