# SPDX-License-Identifier: GPL-3.0-or-later
"""What ports hold after OpenSM was there: their P_Keys, and the virtual lanes of their service levels, as smpquery shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

# Ports whose P_Keys are read back, with one of each set of P_Keys at most and at least; all would take minutes.
_MOST, _LEAST = 64, 8
_KEY = re.compile(r"0x[0-9a-f]{4}\b")
_LANES = re.compile(r"^ports: in +\d+, out +\d+: ((?:\| *\d+)+)\|", re.MULTILINE)
_LOW = re.compile(r"Low priority.*\nVL *: ((?:\|0x\w+ *)+)\|\nWEIGHT: ((?:\|0x\w+ *)+)\|")

# Name of the query and LID, and what else it takes -> what smpquery prints.
Ask = Callable[..., str]


def pkeys(ask: Ask, planned: Mapping[str, Sequence[int]], ports: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    """Yield the ports whose P_Keys are not as planned; `ports` are port GUID -> name and LID. One of each set of P_Keys is asked first."""
    for guid in sample(planned, ports):
        name, lid = ports[guid]
        held = sorted(int(word, 16) for word in _KEY.findall(ask("pkeys", str(lid))) if int(word, 16))
        if held != sorted(planned[guid]):
            yield f"{name} holds {_keys(held)} and not {_keys(planned[guid])}"


def sample(planned: Mapping[str, Sequence[int]], ports: Iterable[str]) -> list[str]:
    """Return the ports that are read back: one of each set of P_Keys, and a few more."""
    listed = list(ports)
    first = {tuple(planned[guid]): guid for guid in reversed(listed)}
    return list(dict.fromkeys([*first.values(), *listed]))[: max(_LEAST, min(_MOST, len(first)))]


def _keys(keys: Iterable[int]) -> str:
    return " ".join(f"0x{key:04x}" for key in keys) or "none"


def lanes(ask: Ask, options: Mapping[str, str], ports: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    """Yield what of two ports' lanes and weights is not as opensm.conf (`options`) has it; nothing where it has no QoS."""
    if options.get("qos", "FALSE").upper() != "TRUE":
        return
    wanted = [int(lane) for lane in options.get("qos_sl2vl", "").split(",") if lane.strip()]
    weights = dict(_pair(word) for word in options.get("qos_vlarb_low", "").split(",") if ":" in word)
    asked = list(ports.values())
    for name, lid in dict.fromkeys([asked[0], asked[-1]] if asked else []):
        shown = _LANES.search(ask("sl2vl", str(lid)))
        held = [int(word) for word in re.findall(r"\d+", shown[1])] if shown else []
        if wanted and held != wanted:
            yield f"{name} has the service levels on the lanes {_list(held)} and not {_list(wanted)}"
        low = _LOW.search(ask("vlarb", str(lid), "1"))
        # Lane 0 without a weight fills the rest of the table.
        found = {lane: weight for lane, weight in zip(_hex(low[1]), _hex(low[2])) if weight} if low else {}
        if weights and found != weights:
            yield f"{name} has the weights {_list(found.values())} and not {_list(weights.values())}"


def _pair(word: str) -> tuple[int, int]:
    lane, _colon, weight = word.partition(":")
    return int(lane), int(weight)


def _hex(text: str) -> list[int]:
    return [int(word, 16) for word in re.findall(r"0x\w+", text)]


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers)) or "none"
