# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply and compare RoCE settings of the rails: lossless priorities, ToS of RDMA-CM connections, DCQCN notifications."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from ..common.command import Runner
from ..common.finding import Finding
from ..common.sysfs import Root
from ..primitives.kernel import kernel_files
from . import qos, retransmission
from .rdma_devices import NicSettings, RdmaDevice, find

_CM = "sys/kernel/config/rdma_cm"
_RESTART = "systemctl restart bedplate-rdma; who changed it?"
_NO_TREE = "this driver shows neither ecn/ in sysfs (DOCA-OFED) nor cc_params in debugfs (the kernel's own)"


def rails(devices: Sequence[RdmaDevice], nics: Sequence[NicSettings]) -> Iterator[tuple[NicSettings, RdmaDevice]]:
    """Yield the present NICs of the rails."""
    for nic in nics:
        device = find(devices, nic) if nic.rail else None
        if device is not None:
            yield nic, device


def apply(
    root: Root, devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], roce: Mapping[str, Any], run: Runner
) -> Iterator[str]:
    """Apply the settings to the rails; yield the failures."""
    wanted, name = qos.settings_of(roce), qos.qos_tool(root)
    for nic, device in rails(devices, nics):
        if device.layer == "InfiniBand":
            yield f"{nic.name}: its port is set to InfiniBand, but the fabric is Ethernet: mlxconfig -d {device.pci} set LINK_TYPE_P1=2"
            continue
        yield from _apply_tos(root, device.name, int(roce["tos"]))
        # Soft RoCE uses an interface of any kind.
        if device.pci and device.interface and name:
            yield from qos.apply(name, device.interface, wanted, run)
        elif device.pci and not name:
            yield f"{nic.name}: neither mlnx_qos nor dcb of iproute2 is installed"
        tree = _dcqcn(root, device, wanted)
        if tree is None:
            yield f"{nic.name}: DCQCN: {_NO_TREE}"
        else:
            yield from kernel_files.apply(root, tree)
    if roce["retransmission"]:
        yield from retransmission.apply(root, list(rails(devices, nics)), roce["retransmission"], run)


def drift(
    root: Root, devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], roce: Mapping[str, Any], run: Runner
) -> Iterator[Finding]:
    """Compare the rails."""
    wanted, name = qos.settings_of(roce), qos.qos_tool(root)
    for nic, device in rails(devices, nics):
        if device.layer == "InfiniBand":
            fix = f"mlxconfig -d {device.pci} set LINK_TYPE_P1=2, and reboot"
            yield Finding("link-layer", f"link layer of {nic.name}", "Ethernet", device.layer, fix, reboot=True)
            continue
        with _configured(root, device.name) as path:
            there = root.text(path, needed=False)
        if there != str(roce["tos"]):
            yield Finding(
                "rdma-cm-tos",
                f"RDMA-CM's ToS on {nic.name}",
                str(roce["tos"]),
                there or "none: modprobe rdma_cm",
                _RESTART,
            )
        if device.pci and device.interface:
            yield from _drift_of_qos(name, nic, device, wanted, run)
        tree = _dcqcn(root, device, wanted)
        if tree is None:
            yield Finding(
                "dcqcn", f"DCQCN of {nic.name}", f"CNP with DSCP {wanted.cnp_dscp}", "no such setting", _NO_TREE
            )
        for row in kernel_files.drift(root, tree or []):
            yield replace(row, remedy=_RESTART)
    if roce["retransmission"]:
        yield from retransmission.drift(root, list(rails(devices, nics)), roce["retransmission"], run)


def _drift_of_qos(
    name: str, nic: NicSettings, device: RdmaDevice, wanted: qos.QosSettings, run: Runner
) -> Iterator[Finding]:
    setting = f"of {nic.name} ({device.interface})"
    if not name:
        yield Finding("roce", f"PFC {setting}", "readable", "neither mlnx_qos nor dcb is installed", "install iproute2")
        return
    try:
        there = qos.read(name, device.interface, run)
    except qos.QosError as error:
        yield Finding(
            "roce", f"PFC {setting}", "readable", str(error), "ethtool -i; only a physical function has priorities"
        )
        return
    fix = "mlnx_qos -d os: the firmware decides (DCBX)" if there.firmware else _RESTART
    for what, want, found in qos.differences(wanted, there):
        yield Finding("roce", f"{what} {setting}", want, found, fix)


@contextmanager
def _configured(root: Root, device: str) -> Iterator[str]:
    """Yield the path of RDMA-CM's ToS of a device; its directory is created for this and removed afterwards.

    A directory that stays would hold the module, so that no driver could be reloaded.
    """
    folder = root.find(f"{_CM}/{device}")
    made = False
    with suppress(OSError):
        folder.mkdir()
        made = True
    try:
        yield f"{_CM}/{device}/ports/1/default_roce_tos"
    finally:
        if made:
            with suppress(OSError):
                folder.rmdir()


def _apply_tos(root: Root, device: str, tos: int) -> Iterator[str]:
    with _configured(root, device) as path:
        there = root.text(path, needed=False)
        if there is None:
            yield f"{device}: RDMA-CM has no settings for it under /{_CM}. Check that rdma_cm is loaded and configfs is mounted"
        elif there != str(tos):
            try:
                root.find(path).write_text(f"{tos}\n")
            except OSError as error:
                yield f"{device}: RDMA-CM refused ToS {tos}: {error.strerror}"


def _dcqcn(root: Root, device: RdmaDevice, wanted: qos.QosSettings) -> list[kernel_files.Write] | None:
    """Return the writes for DCQCN in the tree that exists; an empty list for NICs other than mlx5, None if mlx5 shows no tree."""
    if device.driver != "mlx5_core":
        return []
    sysfs, debugfs = f"sys/class/net/{device.interface}/ecn", f"sys/kernel/debug/mlx5/{device.pci}/cc_params"
    if device.interface and root.exists(sysfs):
        return [
            kernel_files.Write(f"{sysfs}/roce_np/enable/{wanted.priority}", "1"),
            kernel_files.Write(f"{sysfs}/roce_rp/enable/{wanted.priority}", "1"),
            kernel_files.Write(f"{sysfs}/roce_np/cnp_dscp", str(wanted.cnp_dscp)),
        ]
    if root.exists(debugfs):
        return [kernel_files.Write(f"{debugfs}/np_cnp_dscp", str(wanted.cnp_dscp))]
    return None
