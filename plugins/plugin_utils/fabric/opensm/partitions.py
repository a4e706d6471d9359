# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSM's partitions.conf, and the P_Keys that ports hold with it.

One GUID that OpenSM cannot read makes it drop the whole file and every port a full member of 0x7fff: no isolation, and SUBNET UP. Other
mistakes it takes without a word: `ful` is full, `fulll` is limited, `=` is full, an unknown flag is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from ..core.fabric_model import Hca, Plan, TenantPartition
from ..core.guid_files import GuidError, NeededGuids, missing_guids
from ..plan.rules_partitions import DEFAULT

FULL_BIT = 0x8000
# Ports whose P_Keys are read back, with one of each set of P_Keys at most and at least; all would take minutes.
_MOST, _LEAST = 64, 8
# Of a membership, the top bits of its P_Keys.
_BITS = {"limited": (0,), "full": (FULL_BIT,), "both": (0, FULL_BIT)}
# What all ports are in the default partition where there are others.
_OF_ALL = "limited"


def partitions_conf(plan: Plan, plane: str | None = None) -> str:
    """Return partitions.conf of a plane, or of a plan of one, that was checked; GuidError names the GUIDs that are not known.

    Every port is a limited member of the default partition, in which only the SM hosts are full: they reach all, and nobody else does.
    Where a plan has no partitions all ports are full members: two limited ones cannot reach each other.
    """
    managers = [plan.hcas[one.hca] for one in plan.managers if plane is None or plan.hcas[one.hca].plane == plane]
    chosen = [(one, _ports(plan, one, plane)) for one in plan.partitions]
    wanted = [*managers, *(hca for _one, ports in chosen for hca, _membership in ports)]
    if missing := missing_guids(NeededGuids("partitions.conf", "port"), plan, wanted):
        raise GuidError(missing)
    lines = ["# Port GUIDs. One unreadable GUID would undo all partitions."]
    groups = [f"ALL={_OF_ALL if plan.partitions else 'full'}", "SELF=full"]
    lines += _statement("Default=0x7fff,ipoib", groups, [(hca, "full") for hca in managers])
    for one, ports in (pair for pair in chosen if pair[1]):
        lines += ["", *_statement(f"{one.name}=0x{one.pkey:04x}{',ipoib' if one.ipoib else ''}", [], ports)]
    return "\n".join(lines) + "\n"


def needs_both_pkeys(plan: Plan) -> bool:
    """Return whether OpenSM needs allow_both_pkeys: without it, `both` is `full`."""
    return any("both" in one.members.values() for one in plan.partitions)


def _statement(header: str, groups: Sequence[str], ports: Sequence[tuple[Hca, str]]) -> Iterable[str]:
    """Yield a partition with a member on each line: OpenSM cuts lines after 4094 signs.

    The ';' stands behind the last member: of one alone on its line OpenSM reads on in what an earlier, longer line has left.
    """
    members = [(group, "") for group in groups]
    members += [(f"0x{guid_of(hca.port_guid)}={membership}", f"  # {hca.name}") for hca, membership in ports]
    yield f"{header} :"
    for number, (member, name) in enumerate(members, 1):
        yield f"    {member}{' ;' if number == len(members) else ','}{name}"


def _ports(plan: Plan, partition: TenantPartition, plane: str | None) -> list[tuple[Hca, str]]:
    """Return the HCAs of a plane that are members, in the plan's order; a membership of an HCA precedes that of its host."""
    found = []
    for hca in plan.hcas.values():
        membership = partition.members.get(hca.name) or partition.members.get(hca.host)
        if membership and (plane is None or hca.plane == plane):
            found.append((hca, membership))
    return found


def planned_pkeys(plan: Plan, plane: str | None, master: str) -> dict[str, list[int]]:
    """Return port GUID -> expected P_Keys of the HCAs, with the top bit for a full member.

    `master` is the port GUID of the SM that is in charge; it and the other SMs are full members of the default partition.
    """
    full = {guid_of(master), *(guid_of(plan.hcas[one.hca].port_guid) for one in plan.managers)}
    of_all = _OF_ALL if plan.partitions else "full"
    hcas = [hca for hca in plan.hcas.values() if plane is None or hca.plane == plane]
    held = {guid: {DEFAULT: "full" if guid in full else of_all} for guid in (guid_of(hca.port_guid) for hca in hcas)}
    for one in plan.partitions:
        for hca, membership in _ports(plan, one, plane):
            held[guid_of(hca.port_guid)][one.pkey] = membership
    # Ports are many, and what they are members of differs little.
    known: dict[tuple[tuple[int, str], ...], list[int]] = {}
    found = {}
    for port, keys in held.items():
        members = tuple(keys.items())
        if members not in known:
            known[members] = sorted(pkey | bit for pkey, membership in members for bit in _BITS[membership])
        found[port] = list(known[members])
    return found


def ports_to_read(planned: Mapping[str, Sequence[int]], ports: Iterable[str]) -> list[str]:
    """Return the ports that are read back: one of each set of P_Keys, and a few more."""
    listed = list(ports)
    first = {tuple(planned[guid]): guid for guid in reversed(listed)}
    return list(dict.fromkeys([*first.values(), *listed]))[: max(_LEAST, min(_MOST, len(first)))]
