# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and compare the file in which NCCL finds this machine's GPUs and NICs if it does not see all of /sys, as in some containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..common.files import atomic_write
from ..common.finding import Finding
from ..common.sysfs import Root
from ..tuning.pci import nccl_files
from ..tuning.pci.machine_topology import read_machine
from .rdma_devices import NicSettings

FILE = "run/bedplate/nccl-topology.xml"


def write(root: Root, nics: Sequence[NicSettings]) -> None:
    """Write the topology from sysfs; if sysfs shows no device for NCCL, remove the file."""
    text, file = _text(root, nics), root.find(FILE)
    if not text and file.exists():
        file.unlink()
    if text and text.strip() != root.text(FILE, needed=False):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, text, mode=0o644, sync=False)  # in memory


def drift(root: Root, nics: Sequence[NicSettings]) -> Iterator[Finding]:
    """Compare the file with sysfs."""
    found = root.text(FILE, needed=False)
    if found != (_text(root, nics).strip() or None):
        fix = "systemctl restart bedplate-rdma; a GPU or a NIC may have appeared or disappeared since it was written"
        yield Finding(
            "nccl-topology", f"/{FILE}", "the devices in sysfs", "none" if found is None else "other devices", fix
        )


def _text(root: Root, nics: Sequence[NicSettings]) -> str:
    """Return the text of the file, with the NICs of the rails: NCCL uses no others."""
    rails = [nic.name for nic in nics if nic.rail]
    return nccl_files.topology(read_machine(str(root.top)), rails) if rails else ""
