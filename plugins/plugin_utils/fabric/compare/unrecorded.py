# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which discovered GUIDs are not recorded, and why.

A GUID is recorded only if the node names its host, and nothing contradicts the name. An adapter that names no host is never recorded, since
any other adapter may be in its place: with tenants, its port would be in the partition of another host. A switch is its place.
"""

from __future__ import annotations

from collections.abc import Iterator

from .binding import Binding
from .exchanged import MisplacedCables
from .identified_fabric import DEVICE, NAME, ORDER, PLACE, RECORDED, RENUMBERED, REST


def find_unrecorded(binding: Binding, misplaced: MisplacedCables) -> None:
    """Fill in `unrecorded` of the identified fabric: name -> reason."""
    seen, hcas = binding.seen, binding.plan.hcas
    for name, how in seen.how.items():
        if how != NAME and (reason := _reason(binding, name, how)):
            seen.unrecorded[name] = reason
    for guid in (*binding.contested, *binding.again):
        if guid in seen.names:
            seen.unrecorded[seen.names[guid]] = "two nodes have one name"
    for name, beside in list(_rivals(binding)):
        seen.unrecorded[name] = f"an adapter that does not name its host is in its port, and was taken for {beside}"
    # An order is a guess until the cables of the whole host confirm it.
    odd = {hcas[name].host for name in seen.unrecorded if seen.how[name] == ORDER}
    for name, how in seen.how.items() if odd else ():
        if how == ORDER and hcas[name].host in odd:
            seen.unrecorded.setdefault(name, "the cables of its host contradict the order of its devices")
    for name in misplaced.strangers():
        if seen.how.get(name) == NAME:
            seen.unrecorded[name] = "its cables are not the planned ones of this name"
    for exchange in seen.exchanges:
        for name, _port in exchange.ports:
            seen.unrecorded[name] = "names and cables contradict each other"


def _rivals(binding: Binding) -> Iterator[tuple[str, str]]:
    """Yield adapters with their own name whose port holds one without a name, and the name of that: they may be each other.

    The GUID on record can confirm the name.
    """
    how, hcas = binding.seen.how, binding.plan.hcas
    for beside, way in how.items():
        if way == REST and beside in hcas:
            name = binding.place_of(binding.taken[beside])
            if how.get(name) == NAME and binding.on_record.get(binding.taken[name]) != name:
                yield name, beside


def _reason(binding: Binding, name: str, how: str) -> str:
    """Return why the GUID of a node without its own name is not recorded; "" if it is."""
    if name in binding.plan.switches:
        fits = how != PLACE or 2 * binding.fits(node := binding.merged.nodes[binding.taken[name]], name) >= len(
            binding.cables[node.guid]
        )
        return "" if fits else "fewer than half of its cables are in its planned ports"
    if how in (PLACE, REST):
        return "its description names neither host nor device"
    if how == RENUMBERED:
        return "a card of its host is absent, and the others have its numbers"
    if how == RECORDED:
        return "its host calls it by the name of another device"
    if how in (DEVICE, ORDER) and binding.place_of(binding.taken[name]) != name:
        return "its cable contradicts its device name"
    return ""
