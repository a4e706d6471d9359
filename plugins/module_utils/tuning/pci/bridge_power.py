# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the PCI bridges above GPUs awake: a bridge whose power control is `auto` may be suspended when nothing below it works."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.finding import NOTICE, Finding
from ...common.sysfs import Root
from ...gpu.devices.gpu_devices import PCI, gpu_addresses
from .machine_topology import pci_path
from .pci_config_space import is_virtual

_ON = "on"


def _controls(root: Root) -> dict[str, str | None]:
    """Return bridge above a GPU -> its power control, None without one. Empty on virtual machines, whose hypervisor controls PCI."""
    gpus = [] if is_virtual(root) else gpu_addresses(root)
    bridges = sorted({bridge for gpu in gpus for bridge in pci_path(root, gpu)[:-1]})
    return {bridge: root.text(_file(bridge), needed=False) for bridge in bridges}


def _file(bridge: str) -> str:
    return f"{PCI}/{bridge}/power/control"


def apply(root: Root) -> Iterator[str]:
    """Keep each bridge awake; yield what the kernel refused. A bridge without a power control never sleeps."""
    for bridge, state in _controls(root).items():
        if state in (_ON, None):
            continue
        try:
            root.find(_file(bridge)).write_text(f"{_ON}\n")
        except OSError as error:
            yield f"power control of the PCI bridge {bridge}: the kernel refused {_ON}: {error.strerror}"


def drift(root: Root) -> Iterator[Finding]:
    """Compare the bridges: one finding for all that may sleep, a notice for those without a power control."""
    controls = _controls(root)
    asleep = [bridge for bridge, state in controls.items() if state not in (_ON, None)]
    missing = [bridge for bridge, state in controls.items() if state is None]
    if asleep:
        where = f"power control of {len(asleep)} of {len(controls)} PCI bridges above GPUs, such as {asleep[0]}"
        found = ", ".join(sorted({str(controls[bridge]) for bridge in asleep}))
        yield Finding("bridge-power", where, _ON, found, "systemctl restart bedplate-tuning; who changed it?")
    if missing:
        text = f"{len(missing)} of {len(controls)} PCI bridges above GPUs have no power control, such as {missing[0]}"
        remedy = "nothing is set there; a kernel with CONFIG_PM has the file power/control"
        yield Finding("bridge-power-missing", "power control of PCI bridges", "", text, remedy, NOTICE)
