# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply names, addresses and lossless priorities to this machine's RDMA devices.

bedplate-rdma.service runs it at every boot, after each change, and whenever a device appears, such as after the reload of a driver. Usage:
python3 -m ansible_collections.bedplate.cluster.plugins.module_utils.rdma.apply_rdma SETTINGS [ROOT]. SETTINGS is JSON, as
`plugins/plugin_utils/rdma` writes it. Correct settings are not touched. Each failure is reported on a line, and the exit code is then 1. A
missing device is not a failure: when it appears, this program runs again, and `verify` reports it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..common.command import Runner, run_quick
from ..common.sysfs import Root
from ..primitives.kernel import settings_unit
from . import device_names, nccl_topology_file, rail_interfaces, rail_owners, rdma_devices, rdma_software, roce


def apply(root: Root, settings: Mapping[str, Any], run: Runner = run_quick) -> Iterator[str]:
    """Apply the settings to a machine; yield the failures, after everything was tried."""
    nics = rdma_devices.nics_from(settings["nics"])
    rdma_software.note(root, settings["doca"])
    there = rdma_devices.read_devices(root)
    if device_names.renames(there, nics):
        yield from device_names.rename_devices(there, nics, run)
        there = rdma_devices.read_devices(root)
    yield from rail_owners.release(there, nics, settings["management"], run)
    yield from rail_interfaces.configure(root, there, nics, settings["management"], run)
    if settings["roce"]:
        yield from roce.apply(root, there, nics, settings["roce"], run)
    if settings["topology"]:
        nccl_topology_file.write(root, nics)


def main(arguments: Sequence[str]) -> int:
    """Apply the settings of a file to this machine."""
    return settings_unit.main(arguments, apply, "rdma")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
