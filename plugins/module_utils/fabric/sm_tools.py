# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the subnet managers of a host's planes with the host's own tools (ibstat, sminfo, saquery, smpquery)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .discovery import guid_of

# `Sm.state` as in SMInfo; SILENT is an SM that the master lists and that does not answer.
STATES = ("not active", "discovering", "standby", "master")
SILENT = "silent"
_SMINFO = re.compile(r"sm lid (\d+) sm guid 0x([0-9a-f]+), activity count \d+ priority (\d+) state (\d)")
_RECORD = re.compile(
    r"LID\.+(\d+)\s+SMInfo dump:\s+GUID\.+0x([0-9a-fA-F]+)\s(?:.*\n)*?.*Priority\.+(\d+)\s+SMState\.+(\d)"
)
_FIRST_MULTICAST = 0xC000
_KEY = re.compile(r"0x([0-9a-f]{4})\b")

# Tool name and arguments -> output; "" if the tool fails.
Run = Callable[..., str]


@dataclass(frozen=True)
class Sm:
    """Hold a subnet manager's report of itself."""

    guid: str
    lid: int
    priority: int
    state: str


def local_ports(ibstat: str) -> dict[str, tuple[str, str]]:
    """Return port GUID -> adapter and port from the output of `ibstat`."""
    found = {}
    adapter = port = ""
    for line in ibstat.splitlines():
        if match := re.match(r"\s*CA '(.+)'", line):
            adapter = match[1]
        elif match := re.match(r"\s*Port (\d+):", line):
            port = match[1]
        elif (match := re.match(r"\s*Port GUID:\s*(0x[0-9a-fA-F]+)", line)) and adapter and port:
            found[guid_of(match[1])] = (adapter, port)
    return found


def lids(ibstat: str) -> dict[str, int]:
    """Return port GUID -> LID of the ports that have one, from the output of `ibstat`."""
    found, lid = {}, 0
    for line in ibstat.splitlines():
        if re.match(r"\s*(CA '|Port \d+:)", line):
            lid = 0
        elif match := re.match(r"\s*Base lid:\s*(\d+)", line):
            lid = int(match[1])
        elif (match := re.match(r"\s*Port GUID:\s*(0x[0-9a-fA-F]+)", line)) and 0 < lid < _FIRST_MULTICAST:
            found[guid_of(match[1])] = lid
    return found


def own_state(run: Run, guid: str) -> str:
    """Return the state that the SM on a port of this host reports; "" if none answers or the port has no LID yet."""
    said = run("ibstat")
    at, lid = local_ports(said).get(guid), lids(said).get(guid)
    if not at or not lid:
        return ""
    found = sminfo(run("sminfo", "-C", at[0], "-P", at[1], str(lid)))
    return found.state if found and found.guid == guid else ""


def sminfo(text: str) -> Sm | None:
    """Return the SM in a line of `sminfo`."""
    match = _SMINFO.search(text)
    if not match:
        return None
    return Sm(guid_of(match[2]), int(match[1]), int(match[3]), _state(match[4]))


def records(text: str) -> list[Sm]:
    """Return the SMs that `saquery SMIR` lists. The master updates their states only in its sweeps."""
    return [Sm(guid_of(one[2]), int(one[1]), int(one[3]), _state(one[4])) for one in _RECORD.finditer(text)]


def _state(number: str) -> str:
    return STATES[int(number)] if int(number) < len(STATES) else f"state {number}"


def managers(run: Run, at: tuple[str, str]) -> list[Sm]:
    """Return all SMs visible from a port (adapter and number), each queried directly. [] if no master answers."""
    own = ("-C", at[0], "-P", at[1])
    first = sminfo(run("sminfo", *own))
    if first is None:
        return []
    found = []
    for one in records(run("saquery", *own, "SMIR")) or [first]:
        asked = first if one.guid == first.guid else sminfo(run("sminfo", *own, str(one.lid)))
        if asked is not None and asked.guid == one.guid:
            found.append(asked)
        elif one.state != STATES[0]:
            found.append(replace(one, state=SILENT))
    return found


def pkeys(run: Run, at: tuple[str, str], ports: Iterable[str]) -> dict[str, list[int]]:
    """Return port GUID -> its P_Keys; ports that do not answer are left out."""
    found = {}
    for guid in ports:
        said = run("smpquery", "-C", at[0], "-P", at[1], "-G", "pkeys", f"0x{guid}", "1")
        if keys := [int(word, 16) for word in _KEY.findall(said)]:
            found[guid] = sorted(key for key in keys if key)
    return found
