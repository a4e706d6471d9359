# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of udev's rules that name RDMA devices when they appear."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.rdma_devices import NicSettings

_KERNELS = re.compile(r"(mlx4|mlx5|bnxt_re|irdma|efa|rxe|siw)_?\d+\Z")


def device_names(nics: Sequence[NicSettings]) -> list[dict[str, Any]]:
    """Return the values of 60-rdma-persistent-naming.rules.j2; nothing where the distribution's rules name the devices.

    Devices of which nobody says who they are keep the kernel's name where the cluster file has such names, else the distribution's.
    """
    fixed = [nic for nic in nics if nic.is_fixed]
    kernels = any(_KERNELS.match(nic.name) for nic in nics if not nic.is_fixed)
    if not fixed and not kernels:
        return []
    named = [{"name": nic.name, "match": _match(nic)} for nic in fixed]
    return [{"fixed": named, "otherwise": "NAME_KERNEL" if kernels else "NAME_FALLBACK"}]


def _match(nic: NicSettings) -> str:
    if nic.pci:
        return f'KERNELS=="{nic.pci}"'
    guid = ":".join(nic.guid[place : place + 4] for place in range(0, 16, 4))
    return f'ATTR{{node_guid}}=="{guid}"'
