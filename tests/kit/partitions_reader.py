# SPDX-License-Identifier: GPL-3.0-or-later
"""partitions.conf as OpenSM reads it (osm_prtn_config.c of 3.3.23 and later), and all that it would refuse or take for something else.

A statement is `Name=0xPKEY,flags : members ;`. The part up to the colon is on one line; members may be on many, and a line's end is as
good as a comma. `#` comments out the rest of a line, with a `;` in it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    Hca,
    Plan,
    PlanProblem,
    Switch,
)

RULE = "partitions"
DEFAULT, FULL_BIT = 0x7FFF, 0x8000
MEMBERSHIPS = ("full", "limited", "both")
GROUPS = ("ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS", "SELF")
# Signs of a partition's name that OpenSM keeps.
LONGEST = 31
# Of a membership, the top bits of its P_Keys.
_BITS = {"limited": (0,), "full": (FULL_BIT,), "both": (0, FULL_BIT)}
# What fgets of OpenSM takes at once.
_LINE = 4094
# IBTA's numbers of rates; mtu 1 to 5 are 256 to 4096.
_VALUES = {
    "mtu": range(1, 6),
    "rate": range(2, 24),
    "scope": range(1, 16),
    "sl": range(16),
    "Q_Key": range(1 << 32),
    "TClass": range(256),
    "FlowLabel": range(1 << 20),
}
_SWITCHES = ("ipoib", "indx0")
_FLAGS = (*_VALUES, *_SWITCHES, "defmember")
_NUMBER = re.compile(r"(0x[0-9A-Fa-f]+|0|[1-9][0-9]*)\Z")
_REFUSED = "OpenSM refuses the whole file for it and makes every port a full member of 0x7fff"


@dataclass(frozen=True)
class Member:
    """A member as it is written: a GUID in 16 digits, or one of `GROUPS`."""

    name: str
    membership: str
    line: int


@dataclass
class PartitionEntry:
    """A partition as OpenSM understands it."""

    name: str
    pkey: int
    line: int
    flags: dict[str, str] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)


def parse(text: str, plan: Plan | None = None, *, both: bool = False) -> tuple[list[PartitionEntry], list[PlanProblem]]:
    """Return the partitions, and what is wrong with each line; `both` says that `allow_both_pkeys` is set in opensm.conf."""
    reader = _PartitionsParser(plan, both)
    for number, line in enumerate(text.split("\n"), 1):
        reader.line(line, number)
    reader.end()
    return reader.entries, reader.problems


class _PartitionsParser:
    def __init__(self, plan: Plan | None, both: bool) -> None:
        self.entries: list[PartitionEntry] = []
        self.problems: list[PlanProblem] = []
        self.open: PartitionEntry | None = None
        # The first of each name and pkey, and the members of the open one with their lines.
        self.by_name: dict[str, PartitionEntry] = {}
        self.by_pkey: dict[int, PartitionEntry] = {}
        self.listed: dict[str, int] = {}
        self.number = 0
        self.both = both
        self.plan = plan
        self.ports: set[str] = set()
        self.nodes: dict[str, str] = {}
        if plan:
            self.ports, self.nodes = _guids(plan)

    def _wrong(self, text: str, severity: str = "error", line: int = 0) -> None:
        self.problems.append(PlanProblem(RULE, f"partitions.conf line {line or self.number}", text, severity))

    def line(self, line: str, number: int) -> None:
        """Read a line."""
        self.number = number
        if len(line.encode(errors="surrogateescape")) >= _LINE:
            self._wrong(
                f"more than {_LINE - 1} bytes, and OpenSM cuts the line there, in the middle of a GUID; put members on lines of their own"
            )
        if "\r" in line or "\0" in line:
            what = "a carriage return" if "\r" in line else "a NUL"
            self._wrong(f"has {what}, which OpenSM takes for a part of the last word: {_REFUSED}")
            line = line.replace("\r", "").replace("\0", "")
        parts = line.split("#")[0].split(";")
        for part in parts[:-1]:
            self._part(part.strip(" \t"), closed=True)
        self._part(parts[-1].strip(" \t"), closed=False)

    def end(self) -> None:
        """Report what is open, and a file that says nothing."""
        if self.open:
            self._wrong(f"partition {self.open.name} has no ';' at its end", line=self.open.line)
        elif not self.entries and not self.problems:
            self._wrong(f"there is no partition in it: {_REFUSED}")
        others = [entry for entry in self.entries if entry.pkey != DEFAULT]
        for entry in self.entries:
            for member in entry.members if others and entry.pkey == DEFAULT else ():
                if member.name in GROUPS[:2] and member.membership == "full":
                    text = f"{member.name} are full members of 0x7fff, so the other partitions separate nobody"
                    self._wrong(text, "warning", member.line)

    def _part(self, part: str, *, closed: bool) -> None:
        """Read what stands before a ';' or the end of a line."""
        if not part:
            if closed and not self.open:
                self._wrong(f"a ';' that ends nothing: {_REFUSED}")
            elif closed:
                text = "OpenSM reads on in what an earlier line has left, and can refuse the file for it"
                self._wrong(f"a ';' with nothing before it: {text}; put it behind the last member")
        elif self.open and ":" in part and not part.startswith("mgid"):
            self._wrong(
                f"a new partition, and {self.open.name} (line {self.open.line}) has no ';' at its end: {_REFUSED}"
            )
            self.open = None
            self._header(part)
        elif self.open:
            self._members(part)
        else:
            self._header(part)
        if closed:
            self.open = None

    def _header(self, part: str) -> None:
        head, colon, members = part.partition(":")
        if not colon:
            self._wrong(f"no ':' after name, pkey and flags {part[:40]!r}, which are to be on one line: {_REFUSED}")
        first, *flags = head.split(",")
        name, equals, number = (word.strip(" \t") for word in first.partition("="))
        if not equals and re.match(r"[0-9]", name):
            name, number = "", name
        pkey = self._pkey(name, number)
        entry = PartitionEntry(name or f"{pkey:04x}", pkey, self.number)
        for flag in flags:
            self._flag(entry, flag)
        self._known(entry)
        self.entries.append(entry)
        self.open, self.listed = entry, {}
        if members := members.strip(" \t"):
            self._members(members)

    def _pkey(self, name: str, number: str) -> int:
        if not number:
            self._wrong(f"partition {name!r} has no pkey, so OpenSM would make one up; say {name or 'name'}=0x0001")
            return 0
        if not _NUMBER.match(number):
            refused = not re.match(r"[+-]?0?[0-7]+\Z", number)
            meant = _REFUSED if refused else "OpenSM would read it as octal or with its sign"
            self._wrong(f"pkey {number!r} is no number; allowed: 0x0001 to 0x7fff: {meant}")
            return 0
        value = int(number, 0)
        if value > 0xFFFF or value & DEFAULT == 0:
            self._wrong(
                f"pkey {number} is out of range; allowed: 0x0001 to 0x7fff; OpenSM would use other bits, or make one up"
            )
        elif value & FULL_BIT:
            text = f"pkey {number} has the top bit, which OpenSM drops: members are limited unless they are called full"
            self._wrong(text, "warning")
        return value & DEFAULT

    def _known(self, entry: PartitionEntry) -> None:
        if len(entry.name) > LONGEST:
            self._wrong(f"the name {entry.name!r} has more than {LONGEST} signs, and OpenSM cuts it")
        if entry.pkey and (other := self.by_pkey.setdefault(entry.pkey, entry)) is not entry:
            self._wrong(f"pkey 0x{entry.pkey:04x} is that of {other.name} (line {other.line}): OpenSM makes them one")
        elif (other := self.by_name.setdefault(entry.name, entry)) is not entry:
            self._wrong(f"the name {entry.name} is in line {other.line} already")

    def _flag(self, entry: PartitionEntry, text: str) -> None:
        flag, equals, value = (word.strip(" \t") for word in text.partition("="))
        if flag not in _FLAGS:
            meant = next((known for known in _FLAGS if known.startswith(flag)), "")
            what = f"OpenSM takes it for {meant}" if meant else "OpenSM ignores it"
            self._wrong(f"unknown flag {flag!r}: {what}; allowed: {', '.join(sorted(_FLAGS))}")
            return
        if flag in entry.flags:
            self._wrong(f"flag {flag} is there twice")
        entry.flags[flag] = value
        if flag in _SWITCHES:
            if equals:
                self._wrong(f"flag {flag} takes no value, and OpenSM ignores {value!r}")
        elif flag == "defmember":
            if value not in MEMBERSHIPS:
                self._wrong(f"defmember is {value!r}; allowed: {', '.join(MEMBERSHIPS)}")
            self._if_both(value)
        elif not _NUMBER.match(value) or int(value, 0) not in _VALUES[flag]:
            allowed = _VALUES[flag]
            self._wrong(f"{flag} is {value!r}; allowed: {allowed[0]} to {allowed[-1]}; OpenSM would skip or cut it")

    def _if_both(self, membership: str) -> None:
        if membership == "both" and not self.both:
            self._wrong("membership both is full unless opensm.conf has allow_both_pkeys TRUE")

    def _members(self, part: str) -> None:
        assert self.open is not None
        if part.startswith("mgid"):
            self._group(part)
            return
        words = [word.strip(" \t") for word in part.split(",")]
        if not words[-1]:
            words.pop()
        for word in words:
            if not word:
                self._wrong("a comma with nothing before it")
                continue
            name, equals, membership = (one.strip(" \t") for one in word.partition("="))
            known = self._member(name)
            default = self.open.flags.get("defmember", "limited")
            if equals:
                self._membership(name, membership)
            if known:
                self._twice(known)
                self.open.members.append(Member(known, membership if equals else default, self.number))

    def _twice(self, name: str) -> None:
        if name in self.listed:
            self._wrong(f"{name} is in line {self.listed[name]} already, and OpenSM takes what it finds last")
        else:
            self.listed[name] = self.number

    def _membership(self, name: str, membership: str) -> None:
        self._if_both(membership)
        if membership in MEMBERSHIPS:
            return
        meant = "limited"
        if "full".startswith(membership):
            meant = "full"
        elif "both".startswith(membership):
            meant = "both"
        allowed = ", ".join(MEMBERSHIPS)
        self._wrong(f"membership of {name} is {membership!r}: OpenSM takes it for {meant}; allowed: {allowed}")

    def _member(self, name: str) -> str:
        """Return a member as it is known; "" after a report that it is nothing."""
        if name in GROUPS:
            return name
        meant = next((group for group in ("NONE", *GROUPS) if name and group.startswith(name)), "")
        if meant:
            self._wrong(
                f"{name!r} is no member: OpenSM takes it for {meant}; allowed: a port GUID, {', '.join(GROUPS)}"
            )
            return ""
        if not re.match(r"0x[0-9A-Fa-f]{1,16}\Z", name) or int(name, 16) == 0:
            silent = re.match(r"(\+?[1-9][0-9]*|[+]?0[0-7]+|0x[0-9A-Fa-f]{17,})\Z", name)
            how = "OpenSM would take it for another GUID" if silent and name.strip("0x+") else _REFUSED
            self._wrong(f"{name!r} is no GUID: {how}; allowed: 0x and at most 16 hexadecimal digits")
            return ""
        guid = guid_of(name)
        if self.plan and guid not in self.ports:
            if guid in self.nodes:
                text = f"{name} is the node GUID of {self.nodes[guid]}; its port GUID is to be here"
            else:
                text = f"{name} is no port GUID of the plan"
            self._wrong(f"{text}; OpenSM would take it and give nobody the pkey")
        return guid

    def _group(self, part: str) -> None:
        """Check a multicast group: `mgid=ff12:..,sl=1`."""
        first, *flags = part.split(",")
        address = first.partition("=")[2].strip(" \t")
        try:
            multicast = ipaddress.IPv6Address(address).is_multicast
        except ValueError:
            multicast = False
        if not multicast:
            self._wrong(f"mgid {address!r} is no multicast address, and OpenSM leaves the group out; allowed: ff12:...")
        holder = PartitionEntry("", 0, self.number)
        for flag in flags:
            self._flag(holder, flag)


def _guids(plan: Plan) -> tuple[set[str], dict[str, str]]:
    """Return the port GUIDs of HCAs, and the node GUIDs that are no port's, with names."""
    ports = {guid_of(hca.port_guid) for hca in plan.hcas.values() if hca.port_guid}
    things: list[Switch | Hca] = [*plan.switches.values(), *plan.hcas.values()]
    return ports, {guid_of(thing.guid): thing.name for thing in things if thing.guid}


def pkeys_of(entries: Iterable[PartitionEntry], ports: Iterable[str], master: str) -> dict[str, list[int]]:
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
