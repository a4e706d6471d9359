# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of udev: the names that RDMA devices get when they come, and the unit that sets them up then."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.rdma_devices import NicSettings

# A file of this name in /etc hides the distribution's, whose names are made of PCI addresses: ibp59s0, rocep59s0.
NAMES = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
EVENTS = "/etc/udev/rules.d/61-bedplate-rdma.rules"
_ABOUT = "# Written by bedplate (role rdma). Changes made here are overwritten.\n"
_KERNELS = re.compile(r"(mlx4|mlx5|bnxt_re|irdma|efa|rxe|siw)_?\d+\Z")


def names(nics: Sequence[NicSettings]) -> str:
    """Return the text of the rules that name devices; "" where the distribution's do.

    Devices of which nobody says who they are keep the kernel's name where the cluster file has such names, else the distribution's.
    """
    fixed = [nic for nic in nics if nic.is_fixed]
    kernels = any(_KERNELS.match(nic.name) for nic in nics if not nic.is_fixed)
    if not fixed and not kernels:
        return ""
    lines = ['ACTION!="add", GOTO="bedplate_end"\n', 'SUBSYSTEM!="infiniband", GOTO="bedplate_end"\n']
    for nic in fixed:
        rename = f'PROGRAM="rdma_rename %k NAME_FIXED {nic.name}", GOTO="bedplate_end"\n'
        lines.append(f"{_match(nic)}, {rename}")
        # A name that another one has yet is given by bedplate-rdma.service, when all are there.
        lines.append(f'{_match(nic)}, GOTO="bedplate_end"\n')
    lines.append(f'PROGRAM="rdma_rename %k {"NAME_KERNEL" if kernels else "NAME_FALLBACK"}"\n')
    return _ABOUT + "".join(lines) + 'LABEL="bedplate_end"\n'


def events(unit: str) -> str:
    """Return the text of the rules that start the unit again when a device comes, such as after the reload of a driver."""
    start = f'RUN+="/usr/bin/systemctl --no-block restart {unit}"'
    # 32 is the type of IPoIB's interfaces, which come with a module of their own.
    return (
        f'{_ABOUT}ACTION!="add", GOTO="bedplate_end"\n'
        f'SUBSYSTEM=="infiniband", {start}\n'
        f'SUBSYSTEM=="net", ATTR{{type}}=="32", {start}\n'
        f'SUBSYSTEM=="net", DRIVERS=="mlx5_core", {start}\n'
        'LABEL="bedplate_end"\n'
    )


def _match(nic: NicSettings) -> str:
    if nic.pci:
        return f'KERNELS=="{nic.pci}"'
    guid = ":".join(nic.guid[place : place + 4] for place in range(0, 16, 4))
    return f'ATTR{{node_guid}}=="{guid}"'
