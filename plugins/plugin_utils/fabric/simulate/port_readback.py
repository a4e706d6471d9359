# SPDX-License-Identifier: GPL-3.0-or-later
"""State of ports after OpenSM's run: their P_Keys, and the virtual lanes of their service levels, as smpquery shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..opensm.partitions import ports_to_read

_KEY = re.compile(r"0x[0-9a-f]{4}\b")
_LANES = re.compile(r"^ports: in +\d+, out +\d+: ((?:\| *\d+)+)\|", re.MULTILINE)
_LOW = re.compile(r"Low priority.*\nVL *: ((?:\|0x\w+ *)+)\|\nWEIGHT: ((?:\|0x\w+ *)+)\|")

# Name of the query and LID, and what else it takes -> what smpquery prints.
Query = Callable[..., str]


def pkey_differences(
    query: Query, planned: Mapping[str, Sequence[int]], ports: Mapping[str, tuple[str, int]]
) -> Iterator[str]:
    """Yield the ports whose P_Keys are not as planned; `ports` are port GUID -> name and LID. One of each set is first."""
    for guid in ports_to_read(planned, ports):
        name, lid = ports[guid]
        held = sorted(int(word, 16) for word in _KEY.findall(query("pkeys", str(lid))) if int(word, 16))
        if held != sorted(planned[guid]):
            yield f"{name} holds {_keys(held)} and not {_keys(planned[guid])}"


def _keys(keys: Iterable[int]) -> str:
    return " ".join(f"0x{key:04x}" for key in keys) or "none"


def lane_differences(query: Query, options: Mapping[str, str], ports: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    """Yield what of two ports' lanes and weights is not as opensm.conf (`options`) has it; nothing where it has no QoS."""
    if options.get("qos", "FALSE").upper() != "TRUE":
        return
    wanted = [int(lane) for lane in options.get("qos_sl2vl", "").split(",") if lane.strip()]
    weights = dict(_pair(word) for word in options.get("qos_vlarb_low", "").split(",") if ":" in word)
    queried = list(ports.values())
    for name, lid in dict.fromkeys([queried[0], queried[-1]] if queried else []):
        shown = _LANES.search(query("sl2vl", str(lid)))
        held = [int(word) for word in re.findall(r"\d+", shown[1])] if shown else []
        if wanted and held != wanted:
            yield f"{name} has the service levels on the lanes {_list(held)} and not {_list(wanted)}"
        low = _LOW.search(query("vlarb", str(lid), "1"))
        # Lane 0 without a weight fills the rest of the table.
        found = (
            {lane: weight for lane, weight in zip(_hex(low[1]), _hex(low[2]), strict=False) if weight} if low else {}
        )
        if weights and found != weights:
            yield f"{name} has the weights {_list(found.values())} and not {_list(weights.values())}"


def _pair(word: str) -> tuple[int, int]:
    lane, _colon, weight = word.partition(":")
    return int(lane), int(weight)


def _hex(text: str) -> list[int]:
    return [int(word, 16) for word in re.findall(r"0x\w+", text)]


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers)) or "none"
