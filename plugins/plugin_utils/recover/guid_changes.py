# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the GUIDs of a node's adapters with the record beside the cluster file, and write accepted ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write

from ..cluster import Cluster, Node
from ..common.folder_lock import folder_alone
from ..fabric.core import guid_record
from ..fabric.core.guid_record import Record

FOLLOW = (
    "OpenSM's lists and partitions still have the old GUIDs: run playbooks/fabric.yml, and then playbooks/interconnect.yml where bedplate "
    "deploys OpenSM"
)
_INFINIBAND = "infiniband"


@dataclass(frozen=True)
class GuidChange:
    """An adapter with other GUIDs than the record has: `name` as on record, GUIDs in 16 hex digits, "" if unknown."""

    name: str
    old: Mapping[str, str]
    new: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return the change, for people."""
        sorts = [sort for sort in ("node", "port") if self.old.get(sort) != self.new.get(sort)]
        return "; ".join(
            f"{self.name}: {sort} GUID {_shown(self.old, sort)} -> {_shown(self.new, sort)}" for sort in sorts
        )


def recorded_fabrics(cluster: Cluster, host: str) -> dict[Path, Cluster]:
    """Return record -> view of the fabrics whose record may have adapters of a host: a node with NICs in an InfiniBand fabric."""
    found = {}
    for view in cluster.views.values():
        machine = view.machine(host)
        technology = view.fabric.technology if view.fabric else ""
        if technology == _INFINIBAND and isinstance(machine, Node) and machine.profile.nics:
            found[guid_record.path_of(view.path, view.stated.part)] = view
    return found


def all_changes(
    fabrics: Mapping[Path, Cluster], host: str, hcas: Sequence[Mapping[str, Any]]
) -> dict[Path, list[GuidChange]]:
    """Return record -> changes of a node's adapters, for records with any. Raises guid_record.RecordError."""
    records = {path: guid_record.read(path) for path in fabrics}
    found = {}
    for path, view in fabrics.items():
        # An adapter of another fabric may have the name of this one's until the role has renamed it.
        others = {guids["node"] for other, record in records.items() if other != path for guids in record.values()}
        own = [one for one in hcas if one["node"] not in others]
        if listed := changes(view, host, records[path], own):
            found[path] = listed
    return found


def changes(cluster: Cluster, host: str, record: Record, hcas: Sequence[Mapping[str, Any]]) -> list[GuidChange]:
    """Return the adapters of a node whose GUIDs are not as recorded; `hcas` is the result of bedplate.cluster.hca_facts.

    A NIC is found by the PCI address of the cluster file, else by its recorded GUID, else by its name. A NIC without a device is no change:
    its driver may be missing, and role rdma reports it. A NIC that is not on record is left to playbooks/fabric_compare.yml.
    """
    machine = cluster.machine(host)
    nics = machine.profile.nics if isinstance(machine, Node) else ()
    rows = {f"{host} {nic.name}": nic for nic in nics}
    by_guid = {str(one["node"]): one for one in hcas}
    claimed = {record[name]["node"] for name, nic in rows.items() if name in record and not nic.pci}
    found = []
    for name, nic in rows.items():
        if name not in record:
            continue
        old = record[name]
        if nic.pci:
            device = next((one for one in hcas if one["pci"] == nic.pci), None)
        else:
            free = [one for one in hcas if one["node"] not in claimed]
            device = by_guid.get(old["node"]) or next((one for one in free if one["name"] == nic.name), None)
        if device is None:
            continue
        port = str(device["port"]) or (old.get("port", "") if device["node"] == old["node"] else "")
        new = {"node": str(device["node"]), **({"port": port} if port else {})}
        if new["node"] != old["node"] or (port and "port" in old and port != old["port"]):
            found.append(GuidChange(name, old, new))
    return found


def taken(record: Record, found: Sequence[GuidChange]) -> list[str]:
    """Return which of the new GUIDs another name has on record: the adapter is that of another machine."""
    own = {one.name for one in found}
    owner = {guid: name for name, guids in record.items() if name not in own for guid in guids.values()}
    return [
        f"{one.name}: {sort} GUID 0x{guid} is on record for {owner[guid]}"
        for one in found
        for sort, guid in one.new.items()
        if guid in owner
    ]


def accept(path: Path, found: Sequence[GuidChange]) -> None:
    """Write the new GUIDs of these adapters, and leave all other lines. Raises guid_record.RecordError or OSError."""
    with folder_alone(path.parent):
        record = guid_record.read(path)
        if both := taken(record, found):
            raise guid_record.RecordError("\n".join(both))
        for one in found:
            record[one.name] = dict(one.new)
        atomic_write(path, guid_record.text_of(record))


def proposal(path: Path, found: Sequence[GuidChange]) -> str:
    """Return the changes and how to accept them."""
    lines = [one.text for one in found]
    return "\n".join(
        [
            f"the adapters have other GUIDs than {path} has:",
            *lines,
            "If the adapters are new, repeat the command with -e recover_guids=accept: it writes them there",
        ]
    )


def _shown(guids: Mapping[str, str], sort: str) -> str:
    return f"0x{guids[sort]}" if sort in guids else "unknown"
