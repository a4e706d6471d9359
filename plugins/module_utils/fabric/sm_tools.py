# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's own tools (ibstat, sminfo, saquery, smpquery) tell of the subnet managers of its planes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .discovery import guid_of

# `Sm.state` as SMInfo has it; SILENT is one that the master knows of and that does not answer.
STATES = ("not active", "discovering", "standby", "master")
SILENT = "silent"
_SMINFO = re.compile(r"sm lid (\d+) sm guid 0x([0-9a-f]+), activity count \d+ priority (\d+) state (\d)")
_RECORD = re.compile(
    r"LID\.+(\d+)\s+SMInfo dump:\s+GUID\.+0x([0-9a-fA-F]+)\s(?:.*\n)*?.*Priority\.+(\d+)\s+SMState\.+(\d)"
)
_FIRST_MULTICAST = 0xC000
_KEY = re.compile(r"0x([0-9a-f]{4})\b")

# Name of a tool and what it takes -> what it prints; "" when it fails.
Run = Callable[..., str]


@dataclass(frozen=True)
class Sm:
    """A subnet manager as it tells of itself."""

    guid: str
    lid: int
    priority: int
    state: str


def local_ports(ibstat: str) -> dict[str, tuple[str, str]]:
    """Return port GUID -> adapter and port, of what `ibstat` prints."""
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
    """Return port GUID -> LID of the ports that have one, of what `ibstat` prints."""
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
    """Return the state that the SM on a port of this host tells of itself; "" where none answers, or the port has no LID yet."""
    said = run("ibstat")
    at, lid = local_ports(said).get(guid), lids(said).get(guid)
    if not at or not lid:
        return ""
    found = sminfo(run("sminfo", "-C", at[0], "-P", at[1], str(lid)))
    return found.state if found and found.guid == guid else ""


def sminfo(text: str) -> Sm | None:
    """Return the SM of a line that `sminfo` prints."""
    match = _SMINFO.search(text)
    if not match:
        return None
    return Sm(guid_of(match[2]), int(match[1]), int(match[3]), _state(match[4]))


def records(text: str) -> list[Sm]:
    """Return the SMs that `saquery SMIR` lists. The master looks at their states in its sweeps only."""
    return [Sm(guid_of(one[2]), int(one[1]), int(one[3]), _state(one[4])) for one in _RECORD.finditer(text)]


def _state(number: str) -> str:
    return STATES[int(number)] if int(number) < len(STATES) else f"state {number}"


def managers(run: Run, at: tuple[str, str]) -> list[Sm]:
    """Return all SMs that are seen from a port (adapter and number): each is asked itself. [] where no master answers."""
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
    """Return port GUID -> P_Keys that it holds; ports that do not answer are left out."""
    found = {}
    for guid in ports:
        said = run("smpquery", "-C", at[0], "-P", at[1], "-G", "pkeys", f"0x{guid}", "1")
        if keys := [int(word, 16) for word in _KEY.findall(said)]:
            found[guid] = sorted(key for key in keys if key)
    return found
