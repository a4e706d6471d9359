# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the NVIDIA driver's state from procfs, sysfs and /dev, without opening a device. Only a disposable child runs this."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...common.sysfs import Root
from ...gpu.devices.gpu_devices import GPUS, address_of, parse_information
from ..facts.node_facts import Reading
from .probe_settings import MODULE
from .reading_lines import unread

SOURCE = "procfs"
QUANTITIES = ("driver-loaded", "driver-version", "gpu-count-driver", "device-nodes-missing")
_VERSION = re.compile(r"[0-9]{3,4}(\.[0-9]{1,4}){1,3}\Z")


def read_driver(root: Root) -> Iterator[Reading]:
    """Yield the readings of the driver."""
    version = root.text(MODULE, needed=False)
    if version is None and root.problems:
        yield from (unread(name, "", SOURCE, root.problems[-1]) for name in QUANTITIES)
        return
    yield Reading("driver-loaded", "", int(version is not None), SOURCE)
    if version is None:
        why = "the driver is not loaded"
        yield from (unread(name, "", SOURCE, why) for name in QUANTITIES[1:])
        return
    if _VERSION.match(version):
        yield Reading("driver-version", "", version, SOURCE)
    else:
        yield unread("driver-version", "", SOURCE, f"{version!r} is not a version")
    yield from _devices(root)


def _devices(root: Root) -> Iterator[Reading]:
    addresses = [name for name in root.names(GPUS) if address_of(name) == name]
    if not root.exists(GPUS):
        yield unread("gpu-count-driver", "", SOURCE, f"/{GPUS} does not exist")
        yield unread("device-nodes-missing", "", SOURCE, f"/{GPUS} does not exist")
        return
    yield Reading("gpu-count-driver", "", len(addresses), SOURCE)
    problems: list[str] = []
    nodes = ["nvidiactl", "nvidia-uvm"]
    for address in addresses:
        where = f"{GPUS}/{address}/information"
        facts = parse_information(root.text(where) or "", f"/{where}", problems)
        if facts["minor"] is None:
            yield unread("device-nodes-missing", "", SOURCE, f"/{where} has no Device Minor")
            return
        nodes += [] if facts["excluded"] else [f"nvidia{facts['minor']}"]
    yield Reading("device-nodes-missing", "", sum(not root.exists(f"dev/{one}") for one in nodes), SOURCE)
