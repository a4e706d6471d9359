# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role rdma brings to a node: software, modules, names, and the unit that sets RDMA up whenever a device comes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import nccl_topology_file
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.rdma_devices import NicSettings
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci import nccl_files

from ..cluster import Cluster, Node
from ..cluster.rails import addresses
from ..common import shipped
from ..common.deploy_arguments import arguments
from ..fabric.core import guid_record
from ..fabric.core.link_rates import SPEEDS
from . import rdma_packages, udev_rules

UNIT = "bedplate-rdma.service"
SETTINGS = "/etc/bedplate/rdma.json"
MODULES = "/etc/modules-load.d/bedplate-rdma.conf"
NCCL = "/etc/nccl.conf"
_UNIT_FILE = f"/etc/systemd/system/{UNIT}"
_MODULES = {
    "infiniband": ("ib_umad", "ib_uverbs", "ib_ipoib", "rdma_cm", "rdma_ucm"),
    "ethernet": ("ib_uverbs", "rdma_cm", "rdma_ucm"),
}
_LANES = 4
# RoCE sends packets of 4096 bytes and their headers in one frame only from 4200 on.
_ROCE_MTU = 9000
_UNIT = """\
[Unit]
Description=Names, addresses and lossless priorities of this node's RDMA devices, as the cluster file has them
Wants=sys-kernel-config.mount
After=systemd-modules-load.service sys-kernel-config.mount sys-kernel-debug.mount network-pre.target openibd.service
Before=network-online.target slurmd.service
# A container's devices are another machine's.
ConditionVirtualization=!container
# Each of many devices starts it again when it comes.
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
Environment=PYTHONPATH={library} PYTHONDONTWRITEBYTECODE=1
ExecStartPre=-/sbin/modprobe --all {modules}
ExecStart={command} {settings}
TimeoutStartSec=300

[Install]
WantedBy=multi-user.target
"""


class RdmaError(ValueError):
    """Choices that cannot be; a line for each mistake."""


def deployment(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to bring to a host, {} to one that is no node with NICs of the fabric, and where nothing is to be managed.

    `choices` are the role's variables by what is behind `rdma_`. RdmaError: what of them cannot be.
    """
    if problems := list(mistakes(choices)):
        raise RdmaError("\n".join(problems))
    machine = cluster.machine(host)
    if not isinstance(machine, Node) or not machine.profile.nics or not choices["manage"]:
        return {}
    technology = cluster.fabric.technology if cluster.fabric else "infiniband"
    nics = nic_settings(cluster, machine, choices["mtu"] or (_ROCE_MTU if technology == "ethernet" else 0))
    told = rdma_packages.packages(choices, machine.profile)
    lossless = technology == "ethernet" and choices["lossless"]
    modules = list(dict.fromkeys([*_MODULES[technology], *choices["modules"]]))
    settings = {
        "nics": [asdict(nic) for nic in nics],
        "management": machine.address,
        "doca": choices["stack"] == "doca",
        "roce": _roce(choices) if lossless else None,
        "topology": choices["nccl_topology"],
    }
    nccl = _nccl(machine, choices, lossless)
    library = shipped.files("rdma.apply_rdma")
    files = [*_files(settings, nics, modules, nccl), *shipped.entries("rdma.apply_rdma")]
    units = _units(library)
    brought = {**{key: told[key] for key in ("manager", "sources", "packages", "hold")}, "files": files, "units": units}
    return {
        **brought,
        "deploy": arguments(brought, "rdma", start_installed=False),
        "expected": {
            "settings": settings,
            "modules": modules,
            "manager": told["manager"],
            "packages": told["expected"],
            "doca": choices["stack"] == "doca",
            "nccl": nccl,
            "links": {"ethernet": technology == "ethernet", "rate": _rate(cluster)},
        },
    }


def mistakes(choices: Mapping[str, Any], keys: bool = True) -> Iterator[str]:
    """Yield everything that is wrong with the role's variables; without `keys` no file is read."""
    yield from rdma_packages.mistakes(choices, keys)
    mtu = choices["mtu"]
    if mtu and not 1280 <= mtu <= 65520:
        yield f"rdma_mtu: {mtu}; allowed: 1280 to 65520 bytes, or 0 for 9000 on Ethernet and the driver's own on InfiniBand"
    for name, most in (("priority", 7), ("dscp", 63), ("cnp_dscp", 63)):
        if not 0 <= choices[name] <= most:
            yield f"rdma_{name}: {choices[name]}; allowed: 0 to {most}"
    if choices["dscp"] == choices["cnp_dscp"]:
        yield f"rdma_cnp_dscp: {choices['cnp_dscp']} is rdma_dscp, too; notifications must not wait behind what they are about"
    elif choices["cnp_dscp"] // 8 == choices["priority"]:
        yield f"rdma_cnp_dscp: {choices['cnp_dscp']} has the priority {choices['priority']}, as rdma_priority; allowed: another, such as 48"
    for name in choices["modules"]:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", str(name)):
            yield f"rdma_modules: {name!r} is no name of a kernel module"
    if choices["nccl_topology"] and not choices["nccl_manage"]:
        yield "rdma_nccl_topology: nobody would be told of the file, since rdma_nccl_manage is false; allowed: false, or both true"
    for key, value in choices["nccl"].items():
        if not re.fullmatch(r"NCCL_[A-Z0-9_]+", str(key)):
            yield f"rdma_nccl: {key!r}; allowed: settings of NCCL, such as NCCL_DEBUG"
        elif key == "NCCL_IB_TC" and choices["lossless"] and str(value) != str(_tos(choices)):
            yield f"rdma_nccl: NCCL_IB_TC is {value}, and rdma_dscp {choices['dscp']} is {_tos(choices)}: its packets would not be lossless"


def nic_settings(cluster: Cluster, node: Node, mtu: int) -> list[NicSettings]:
    """Return what is wanted of a node's NICs, in the file's order. A GUID on record says who one is whose PCI address is not stated."""
    places = {nic.name: (address, cluster.networks[name]) for nic, address, name in addresses(cluster, node)}
    guids = _record(cluster.path) if any(not nic.pci for nic in node.profile.nics) else {}
    found = []
    for nic in node.profile.nics:
        guid = "" if nic.pci else guids.get(f"{node.name} {nic.name}", {}).get("node", "")
        address, network = places.get(nic.name, ("", None))
        found.append(
            NicSettings(
                name=nic.name,
                pci=nic.pci,
                guid=guid.removeprefix("0x").zfill(16) if guid else "",
                address=address,
                shared=network is not None and len(network.rails) > 1,
                mtu=mtu if nic.rail is not None else 0,
                rail=nic.rail is not None,
            )
        )
    return found


def _record(cluster_file: str) -> Mapping[str, Mapping[str, str]]:
    path = guid_record.path_of(cluster_file)
    try:
        status = path.stat()
    except OSError:
        return {}
    return _read_record(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read_record(path: Path, _time: int, _size: int) -> Mapping[str, Mapping[str, str]]:
    """Return the record; all hosts of a run share it."""
    return guid_record.read(path)


def _rate(cluster: Cluster) -> float | None:
    """Return the Gbit/s of a link of an InfiniBand fabric as the cluster file states it; None: nothing is compared.

    `speed` has a default, and means InfiniBand's speeds: Ethernet's links negotiate others.
    """
    fabric = cluster.fabric
    return _LANES * SPEEDS[fabric.speed] if fabric and fabric.technology == "infiniband" else None


def _tos(choices: Mapping[str, Any]) -> int:
    """Return the byte of IP's header: the DSCP, and that the sender takes word of congestion (ECN)."""
    return int(choices["dscp"]) << 2 | 2


def _roce(choices: Mapping[str, Any]) -> dict[str, int]:
    return {
        "tos": _tos(choices),
        "dscp": choices["dscp"],
        "priority": choices["priority"],
        "cnp_dscp": choices["cnp_dscp"],
        "cnp_priority": choices["cnp_dscp"] // 8,
    }


def _nccl(node: Node, choices: Mapping[str, Any], lossless: bool) -> dict[str, str]:
    """Return NCCL's settings; {} where the file is somebody else's."""
    if not choices["nccl_manage"]:
        return {}
    rails = sorted((nic for nic in node.profile.nics if nic.rail is not None), key=lambda nic: nic.rail or 0)
    return nccl_files.settings(
        rails=[nic.name for nic in rails],
        topology_file=f"/{nccl_topology_file.FILE}" if choices["nccl_topology"] else "",
        traffic_class=_tos(choices) if lossless else None,
        extra=choices["nccl"],
    )


def _files(
    settings: Mapping[str, Any], nics: Sequence[NicSettings], modules: Sequence[str], nccl: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    unit = _UNIT.format(
        library=shipped.library("rdma.apply_rdma"),
        modules=" ".join(modules),
        command=shipped.command("rdma.apply_rdma"),
        settings=SETTINGS,
    )
    yield {"path": SETTINGS, "content": json.dumps(settings, indent=1) + "\n"}
    yield {"path": _UNIT_FILE, "content": unit}
    yield {"path": MODULES, "content": "".join(f"{name}\n" for name in modules)}
    if text := udev_rules.names(nics):
        yield {"path": udev_rules.NAMES, "content": text}
    yield {"path": udev_rules.EVENTS, "content": udev_rules.events(UNIT)}
    if nccl:
        yield {"path": NCCL, "content": nccl_files.environment_file(nccl)}


def _units(library: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    after = [SETTINGS, _UNIT_FILE, *(path for path, _text in library)]
    return [{"name": UNIT, "enabled": True, "state": "started", "condition": "allowed", "restart_after": after}]
