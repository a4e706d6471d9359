# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide software, kernel modules, device names and settings of a node's RDMA: the values of roles/rdma/parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import nccl_topology_file
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.rdma_devices import NicSettings
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci import nccl_files

from ..cluster import Cluster, Network, Nic, Node
from ..cluster.addresses import address_text
from ..cluster.rails import addresses
from ..cluster.schema.text_rules import PCI, WORD
from ..fabric.core import guid_record
from ..parts.decision import Decision, Step
from . import rdma_packages, retransmission_table
from .device_names import device_names
from .planned_links import expected_rates

_MODULES = {
    "infiniband": ("ib_umad", "ib_uverbs", "ib_ipoib", "rdma_cm", "rdma_ucm"),
    "ethernet": ("ib_uverbs", "rdma_cm", "rdma_ucm"),
}
# The kernel allows names of 15 bytes.
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z")
_MOST_RAILS = 63
# Route table of rail 0. The kernel's own end at 255, and known owners of others (Multus and cloud agents from 100 on, Cilium 2004 and 2005)
# are below.
_FIRST_TABLE = 4200
# RoCE sends packets of 4096 bytes and their headers in one frame only from 4200 on.
_ROCE_MTU = 9000


class RdmaError(ValueError):
    """Choices that cannot be; a line for each mistake."""


def decide(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> Decision | None:
    """Return the decision for a host; None for a host without NICs of the fabric, or that is not managed.

    `choices` are the role's variables by what is behind `rdma_`. RdmaError: what of them cannot be.
    """
    if problems := list(mistakes(choices)):
        raise RdmaError("\n".join(problems))
    machine = cluster.machine(host)
    if not isinstance(machine, Node):
        return None
    if choices.get("rails") is not None:
        machine = replace(machine, profile=replace(machine.profile, nics=tuple(map(_nic, choices["rails"]))))
    if not machine.profile.nics or not choices["manage"]:
        return None
    technologies = _technologies(cluster, choices.get("technology") or "")
    technology = technologies[""]
    stated = {rail["name"]: rail["address"] for rail in choices.get("rails") or () if rail.get("address")}
    # Another technology has another largest frame: a stated one is that of the first fabric's.
    mtus = {
        fabric: (choices["mtu"] if one == technology else 0) or (_ROCE_MTU if one == "ethernet" else 0)
        for fabric, one in technologies.items()
    }
    nics = nic_settings(cluster, machine, mtus, stated)
    software = rdma_packages.packages(choices, machine.profile)
    packages = software.pop("expected")
    lossless = technology == "ethernet" and choices["lossless"]
    used = [technology, *(technologies[nic.fabric] for nic in machine.profile.nics)]
    modules = list(dict.fromkeys([*(module for one in used for module in _MODULES[one]), *choices["modules"]]))
    settings = {
        "nics": [_plain(nic) for nic in nics],
        "management": machine.address,
        "doca": choices["stack"] == "doca",
        "roce": _roce(choices) if lossless else None,
        "topology": choices["nccl_topology"],
    }
    nccl = _nccl(machine, choices, lossless)
    owned = [{"name": nic.name, "pci": nic.pci} for nic in nics if nic.address and nic.pci]
    values = {
        **software,
        "owned": owned,
        "unmanaged": [owned] if owned else [],
        "foreign_rules": [True] if any(nic.table for nic in nics) else [],
        "settings": settings,
        "modules": modules,
        "device_names": device_names(nics),
        "nccl": [nccl_files.checked(nccl)] if nccl else [],
    }
    expected = {
        "settings": settings,
        "modules": modules,
        "manager": software["manager"],
        "packages": packages,
        "doca": choices["stack"] == "doca",
        "nccl": nccl,
        "socket_interfaces": list(choices["nccl_socket_interfaces"]),
        "links": {
            "ethernet": technology == "ethernet",
            **(expected_rates(cluster, machine) if technology == "infiniband" else {"rate": None}),
        },
    }
    return Decision(
        {"rdma": values}, {"rdma": expected}, _steps(host, settings) if any(nic.address for nic in nics) else {}
    )


def _technologies(cluster: Cluster, first: str) -> dict[str, str]:
    """Return fabric, "" for the first, -> what its switches speak; `first` replaces that of the first one."""
    usual = cluster.fabric.technology if cluster.fabric else "infiniband"
    others = {
        one.stated.name: one.fabric.technology if one.fabric else "infiniband"
        for one in cluster.fabrics.values()
        if not one.stated.first
    }
    return {"": first or usual, **others}


def _steps(host: str, settings: Mapping[str, Any]) -> dict[str, list[Step]]:
    """Return the check that runs before any file is written: a rail that another program configures would lose its addresses."""
    arguments = {"machine": host, **{key: settings[key] for key in ("nics", "management")}}
    return {"rail_owners": [Step("bedplate.cluster.rail_owners", arguments)]}


def mistakes(choices: Mapping[str, Any], keys: bool = True) -> Iterator[str]:
    """Yield everything that is wrong with the role's variables; without `keys` no file is read."""
    yield from rdma_packages.mistakes(choices, keys)
    yield from _rail_mistakes(choices.get("rails") or ())
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
            yield f"rdma_modules: {name!r} is not the name of a kernel module"
    if choices["nccl_topology"] and not choices["nccl_manage"]:
        yield "rdma_nccl_topology: NCCL would not get the file, since rdma_nccl_manage is false; allowed: false, or both true"
    if choices["retransmission"] not in ("auto", "keep"):
        yield f"rdma_retransmission: {choices['retransmission']!r}; allowed: auto, keep"
    yield from _socket_mistakes(choices)
    for key, value in choices["nccl"].items():
        if not re.fullmatch(r"NCCL_[A-Z0-9_]+", str(key)):
            yield f"rdma_nccl: {key!r}; allowed: settings of NCCL, such as NCCL_DEBUG"
        elif key == "NCCL_IB_TC" and choices["lossless"] and str(value) != str(_tos(choices)):
            yield f"rdma_nccl: NCCL_IB_TC is {value}, and rdma_dscp {choices['dscp']} is {_tos(choices)}: its packets would not be lossless"


def _socket_mistakes(choices: Mapping[str, Any]) -> Iterator[str]:
    names = choices["nccl_socket_interfaces"]
    for name in names:
        if not _INTERFACE.match(str(name)):
            yield f"rdma_nccl_socket_interfaces: {name!r}; allowed: whole names of interfaces, such as eno1"
    if names and not choices["nccl_manage"]:
        yield "rdma_nccl_socket_interfaces: NCCL would not get them, since rdma_nccl_manage is false; allowed: [], or true"
    if names and "NCCL_SOCKET_IFNAME" in choices["nccl"]:
        yield "rdma_nccl: NCCL_SOCKET_IFNAME is set by rdma_nccl_socket_interfaces, too; allowed: one of both"


def _nic(rail: Mapping[str, Any]) -> Nic:
    return Nic(rail["name"], rail.get("rail"), rail.get("pci") or "")


def _rail_mistakes(rails: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    seen: dict[str, set[Any]] = {"name": set(), "rail": set(), "pci": set()}
    for number, rail in enumerate(rails):
        where = f"rdma_rails[{number}]"
        for key, known in seen.items():
            value = rail.get(key)
            if value is not None and value in known:
                yield f"{where}.{key}: {value!r} is used twice; allowed: each once"
            known.add(value)
        if not re.fullmatch(WORD["pattern"], rail["name"]):
            yield f"{where}.name: {rail['name']!r}; allowed: the name of a device, such as mlx5_0"
        if rail.get("pci") and not re.fullmatch(PCI["pattern"], rail["pci"]):
            yield f"{where}.pci: {rail['pci']!r}; allowed: a PCI address, such as 0000:3b:00.0"
        if rail.get("rail") is not None and not 0 <= rail["rail"] <= _MOST_RAILS:
            yield f"{where}.rail: {rail['rail']}; allowed: 0 to {_MOST_RAILS}"
        if rail.get("address") and not _is_interface(rail["address"]):
            yield f"{where}.address: {rail['address']!r}; allowed: an IPv4 address with the length of its network, such as 10.40.0.11/22"


def _is_interface(text: str) -> bool:
    try:
        return "/" in text and bool(IPv4Interface(text))
    except ValueError:
        return False


def nic_settings(
    cluster: Cluster, node: Node, mtus: Mapping[str, int], stated: Mapping[str, str] | None = None
) -> list[NicSettings]:
    """Return the settings of a node's NICs, in the order of its profile.

    `mtus`: fabric, "" for the first -> the MTU of interfaces with an address, 0 for the driver's own. `stated`: name of a NIC -> its
    address with the length of the network, instead of that of the cluster's networks. A GUID on record identifies a NIC whose PCI
    address is not stated.
    """
    places = {nic.name: (address, cluster.networks[name]) for nic, address, name in addresses(cluster, node)}
    records = _records(cluster) if any(not nic.pci for nic in node.profile.nics) else {}
    found = []
    addressed = {nic.name for nic in node.profile.nics if nic.name in places or (stated and nic.name in stated)}
    for nic in node.profile.nics:
        guids = records.get(nic.fabric, {})
        guid = "" if nic.pci else guids.get(f"{node.name} {nic.name}", {}).get("node", "")
        address, network = places.get(nic.name, ("", None))
        if stated and nic.name in stated:
            address, network = stated[nic.name], None
        found.append(
            NicSettings(
                name=nic.name,
                pci=nic.pci,
                guid=guid.removeprefix("0x").zfill(16) if guid else "",
                address=address,
                shared=nic.name in addressed and len(addressed) > 1,
                mtu=mtus[nic.fabric] if nic.rail is not None or nic.network else 0,
                rail=nic.rail is not None,
                **_way(network, nic.rail),
            )
        )
    return found


def _plain(nic: NicSettings) -> dict[str, Any]:
    """Return the settings of a NIC as JSON; keys about routes only for a routed rail."""
    found = {**asdict(nic), "routes": list(nic.routes)}
    return {key: value for key, value in found.items() if value or key not in ("gateway", "table", "routes")}


def _way(network: Network | None, rail: int | None) -> dict[str, Any]:
    """Return gateway, table and destinations of a rail; {} if its network has no gateway."""
    if network is None or network.gateway is None or rail is None:
        return {}
    return {"gateway": address_text(network.gateway), "table": _FIRST_TABLE + rail, "routes": network.routes}


def _records(cluster: Cluster) -> dict[str, Mapping[str, Mapping[str, str]]]:
    """Return fabric, "" for the first, -> its record. A card that went to another fabric stays on record in its old one."""
    found = {}
    for part in dict.fromkeys(["", *(one.stated.part for one in cluster.fabrics.values())]):
        path = guid_record.path_of(cluster.path, part)
        try:
            status = path.stat()
        except OSError:
            continue
        found[part] = _read_record(path, status.st_mtime_ns, status.st_size)
    return found


@lru_cache(maxsize=4)
def _read_record(path: Path, _time: int, _size: int) -> Mapping[str, Mapping[str, str]]:
    """Return the record; all hosts of a run share it."""
    return guid_record.read(path)


def _tos(choices: Mapping[str, Any]) -> int:
    """Return the byte of IP's header: the DSCP, and that the sender takes word of congestion (ECN)."""
    return int(choices["dscp"]) << 2 | 2


def _roce(choices: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tos": _tos(choices),
        "dscp": choices["dscp"],
        "priority": choices["priority"],
        "cnp_dscp": choices["cnp_dscp"],
        "cnp_priority": choices["cnp_dscp"] // 8,
        "retransmission": retransmission_table.settings() if choices["retransmission"] == "auto" else None,
    }


def _nccl(node: Node, choices: Mapping[str, Any], lossless: bool) -> dict[str, str]:
    """Return NCCL's settings; {} if the site manages the file."""
    if not choices["nccl_manage"]:
        return {}
    rails = sorted((nic for nic in node.profile.nics if nic.rail is not None), key=lambda nic: nic.rail or 0)
    return nccl_files.settings(
        rails=[nic.name for nic in rails],
        topology_file=f"/{nccl_topology_file.FILE}" if choices["nccl_topology"] else "",
        traffic_class=_tos(choices) if lossless else None,
        socket_interfaces=choices["nccl_socket_interfaces"],
        extra=choices["nccl"],
    )
