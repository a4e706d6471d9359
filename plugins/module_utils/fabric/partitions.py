# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSM's partitions.conf: written from a plan, and read more strictly than OpenSM reads it.

One GUID that OpenSM cannot read makes it drop the whole file and every port a full member of 0x7fff: no isolation, and SUBNET UP. Other
mistakes it takes without a word: `ful` is full, `fulll` is limited, `=` is full, an unknown flag is nothing. All of them are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.guids import GuidError, Want, missing_guids
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import guid_of
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Hca, Partition, Plan

DEFAULT, FULL_BIT = 0x7FFF, 0x8000
MEMBERSHIPS = ("full", "limited", "both")
# Of a membership, the top bits of its P_Keys.
_BITS = {"limited": (0,), "full": (FULL_BIT,), "both": (0, FULL_BIT)}
# What all ports are in the default partition where there are others.
_OF_ALL = "limited"
GROUPS = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF")
# Signs of a partition's name that OpenSM keeps.
LONGEST = 31
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")


class PartitionError(ValueError):
    """Partitions that cannot be written, with every reason on a line of its own."""


@dataclass(frozen=True)
class Member:
    """A member as it is written: a GUID in 16 digits, or one of `GROUPS`."""

    name: str
    membership: str
    line: int


@dataclass
class Entry:
    """A partition as OpenSM understands it."""

    name: str
    pkey: int
    line: int
    flags: dict[str, str] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)


def text_of(plan: Plan, plane: str | None = None) -> str:
    """Return partitions.conf of a plane, or of a plan of one; PartitionError names all mistakes, GuidError the GUIDs that are not known.

    Every port is a limited member of the default partition, in which only the SM hosts are full: they reach all, and nobody else does.
    Where a plan has no partitions all ports are full members: two limited ones cannot reach each other.
    """
    problems = mistakes(plan)
    if problems:
        raise PartitionError("\n".join(problems))
    managers = [plan.hcas[one.hca] for one in plan.managers if plane is None or plan.hcas[one.hca].plane == plane]
    chosen = [(one, _ports(plan, one, plane)) for one in plan.partitions]
    wanted = [*managers, *(hca for _one, ports in chosen for hca, _membership in ports)]
    if missing := missing_guids(Want("partitions.conf", "port"), plan, wanted):
        raise GuidError(missing)
    lines = ["# Port GUIDs. One that cannot be read would undo all partitions."]
    groups = [f"ALL={_OF_ALL if plan.partitions else 'full'}", "SELF=full"]
    lines += _statement("Default=0x7fff,ipoib", groups, [(hca, "full") for hca in managers])
    for one, ports in (pair for pair in chosen if pair[1]):
        lines += ["", *_statement(f"{one.name}=0x{one.pkey:04x}{',ipoib' if one.ipoib else ''}", [], ports)]
    return "\n".join(lines) + "\n"


def both(plan: Plan) -> bool:
    """Tell whether OpenSM needs allow_both_pkeys: without it, `both` is full."""
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


def _ports(plan: Plan, partition: Partition, plane: str | None) -> list[tuple[Hca, str]]:
    """Return the HCAs of a plane that are members, in the plan's order; what is said of an HCA goes before what is said of its host."""
    found = []
    for hca in plan.hcas.values():
        membership = partition.members.get(hca.name) or partition.members.get(hca.host)
        if membership and (plane is None or hca.plane == plane):
            found.append((hca, membership))
    return found


def mistakes(plan: Plan) -> list[str]:
    """Return what is wrong with the partitions and subnet managers of a plan."""
    wrong = []
    hosts = {hca.host for hca in plan.hcas.values()}
    pkeys: dict[int, str] = {}
    names: dict[str, str] = {"default": "the default partition"}
    for one in plan.partitions:
        where = f"partition {one.name}"
        if not _NAME.match(one.name) or len(one.name) > LONGEST:
            wrong.append(f"{where}: allowed as name: at most {LONGEST} letters, digits and _.-, a letter first")
        if one.name.lower() in names:
            wrong.append(f"{where}: has the name of {names[one.name.lower()]}")
        if not 0 < one.pkey < DEFAULT:
            wrong.append(
                f"{where}: pkey 0x{one.pkey:x}; allowed: 0x0001 to 0x7ffe, the top bit says who is full member"
            )
        elif one.pkey in pkeys:
            wrong.append(f"{where}: has the pkey 0x{one.pkey:04x} of {pkeys[one.pkey]}, so both would be one")
        names.setdefault(one.name.lower(), where)
        pkeys.setdefault(one.pkey, where)
        for member, membership in one.members.items():
            if member not in hosts and member not in plan.hcas:
                wrong.append(f"{where}: {member} is no host and no HCA of the plan")
            if membership not in MEMBERSHIPS:
                wrong.append(f"{where}: {member} is {membership!r}; allowed: {', '.join(MEMBERSHIPS)}")
        if not one.members:
            wrong.append(f"{where}: has no members, so OpenSM would leave it out")
    wrong += [f"subnet manager {one.hca} is no HCA of the plan" for one in plan.managers if one.hca not in plan.hcas]
    return wrong


def pkeys_of(entries: Iterable[Entry], ports: Iterable[str], master: str) -> dict[str, list[int]]:
    """Return port GUID -> P_Keys, with the top bit where it is a full member, as they are to be read back from the HCAs.

    `ports` are the port GUIDs of all HCAs, `master` that of the SM. What is said later of a port goes before what is said earlier.
    """
    every = [guid_of(port) for port in ports]
    held: dict[str, dict[int, str]] = {port: {DEFAULT: "limited"} for port in every}
    own = guid_of(master)
    held.setdefault(own, {})[DEFAULT] = "full"
    for entry in entries:
        for member in entry.members:
            meant = every if member.name in GROUPS[:2] else [own] if member.name == "SELF" else [member.name]
            for port in meant:
                if port in held:
                    held[port][entry.pkey] = member.membership
    # Ports are many, and what they are members of differs little.
    known: dict[tuple[tuple[int, str], ...], list[int]] = {}
    found = {}
    for port, keys in held.items():
        members = tuple(keys.items())
        if members not in known:
            known[members] = sorted(pkey | bit for pkey, membership in members for bit in _BITS[membership])
        found[port] = list(known[members])
    return found


def planned_pkeys(plan: Plan, plane: str | None, master: str) -> dict[str, list[int]]:
    """Return port GUID -> P_Keys as the plan wants them; `master` is the port GUID of the SM that is asked."""
    entries = [Entry(one.name, one.pkey, 0, {}, [Member(guid_of(hca.port_guid), membership, 0)
               for hca, membership in _ports(plan, one, plane)]) for one in plan.partitions]  # fmt: skip
    managers = [plan.hcas[one.hca].port_guid for one in plan.managers]
    members = [Member(guid_of(port), "full", 0) for port in managers]
    if not plan.partitions:
        members.append(Member("ALL", "full", 0))
    entries.append(Entry("Default", DEFAULT, 0, {}, members))
    ports = [hca.port_guid for hca in plan.hcas.values() if plane is None or hca.plane == plane]
    return pkeys_of(entries, ports, master)
