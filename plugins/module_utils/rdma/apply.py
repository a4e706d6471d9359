# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring names, addresses and lossless priorities to this machine's RDMA devices.

bedplate-rdma.service runs it at every boot, after each change, and whenever a device comes, as after the reload of a driver. Usage:
python3 -m ansible_collections.bedplate.cluster.plugins.module_utils.rdma.apply SETTINGS [ROOT]. SETTINGS is JSON, as
`plugins/plugin_utils/rdma` writes it. What is right stays as it is; what cannot be had is told, a line each, and the exit code is 1.
A device that is not there yet is no failure: it starts this again when it comes, and `verify` tells of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root, Runner, run
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import devices, links, names, roce, stack, topology
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning import boot_unit


def bring(root: Root, settings: Mapping[str, Any], run: Runner = run) -> Iterator[str]:
    """Bring a machine to its settings; yield what failed, after all has been tried."""
    nics = devices.nics_from(settings["nics"])
    stack.note(root, settings["doca"])
    there = devices.read_devices(root)
    if names.renames(there, nics):
        yield from names.bring(there, nics, run)
        there = devices.read_devices(root)
    yield from links.bring(root, there, nics, settings["management"], run)
    if settings["roce"]:
        yield from roce.bring(root, there, nics, settings["roce"], run)
    if settings["topology"]:
        topology.bring(root, nics)


def main(arguments: Sequence[str]) -> int:
    """Bring this machine to the settings of a file."""
    return boot_unit.main(arguments, bring, "rdma")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
