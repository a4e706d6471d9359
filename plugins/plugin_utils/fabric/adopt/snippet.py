# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the section `fabric` for an adopted fabric, for pasting into the cluster file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ...cluster import Cluster, Fabric, SwitchTraits
from ...cluster.fabric_checks import sharp_by_default
from ..core.fabric_model import INFINIBAND
from ..core.fabric_shape import DRAGONFLY, LEAF_SPINE, RAIL_ONLY, RAIL_OPTIMISED, RecognisedShape, counted_cables
from ..core.link_rates import named_rate
from ..core.node_descriptions import natural
from .adopted_list import AdoptedList
from .seen_fabric import SeenFabric

# A model whose cages hold two ports.
_TWO_A_CAGE = "MQM97"
_KEPT = ("top", "spare", "switch_racks", "partitions")
# Keys that state tiers by hand; without a list of cables they name switches that are to be bought.
_TIERS = ("spines", "cores", "leaves")
_BY_RAIL = (RAIL_OPTIMISED, RAIL_ONLY)


def section(cluster: Cluster, seen: SeenFabric, shape: RecognisedShape, listed: AdoptedList, cables: str) -> Fabric:
    """Return the section as the cluster file would have it: what was recognised, and keys of the present section that stay."""
    plan, old = seen.plan, cluster.fabric
    models = Counter(switch.ports for switch in plan.switches.values())
    ports = max(models.items(), key=lambda pair: (pair[1], pair[0]))[0] if models else 64
    cages = {name: _cage_ports(seen, name) for name in plan.switches}
    usual_cage = Counter(cages.values()).most_common(1)[0][0] if cages else 1
    unknown = DRAGONFLY if plan.tiers < 2 and len(plan.switches) > 1 else LEAF_SPINE
    kind = shape.kind or (old.kind if old and old.cables else unknown)
    groups = {one.name: one.group for one in old.switches if one.group} if old else {}
    traits = [
        SwitchTraits(
            "",
            name,
            None if switch.ports == ports else switch.ports,
            None if cages[name] == usual_cage else cages[name],
            groups.get(name, ""),
        )
        for name, switch in plan.switches.items()
    ]
    rails = {hca.rail for hca in listed.hcas.values() if hca.rail is not None}
    return replace(
        _kept(old),
        rails=len(rails) if kind in _BY_RAIL and rails else None,
        kind=kind,
        speed=usual_speed(seen, old),
        switch_ports=ports,
        cage_ports=usual_cage,
        oversubscription=_oversubscription(seen),
        cables=cables,
        switches=tuple(one for one in traits if one.ports or one.cage_ports or one.group),
    )


def _kept(old: Fabric | None) -> Fabric:
    """Return a section with the keys of the present section that stay."""
    found = Fabric((), "spine", None)
    if old is None:
        return found
    found = replace(found, top=old.top, spare=old.spare, switch_racks=old.switch_racks, partitions=old.partitions)
    return replace(found, spines=old.spines, cores=old.cores, leaves=old.leaves) if old.cables else found


def _cage_ports(seen: SeenFabric, name: str) -> int:
    node = seen.merged.nodes[seen.plan.switches[name].guid]
    return node.cage_ports or (2 if _TWO_A_CAGE in node.description else 1)


def is_speed_known(seen: SeenFabric, old: Fabric | None) -> bool:
    """Return whether the discovery or the present section has a speed: LLDP seldom has one."""
    return old is not None or any(named_rate(rate) for rate in seen.rates.values())


def usual_speed(seen: SeenFabric, old: Fabric | None) -> str:
    """Return the speed of most ports, as far as the cluster file has a name for it."""
    counts = Counter(named[1] for rate in seen.rates.values() if (named := named_rate(rate)))
    known = [speed for speed, _count in counts.most_common() if speed in ("EDR", "HDR", "NDR", "XDR")]
    return known[0] if known else old.speed if old else "NDR"


def _oversubscription(seen: SeenFabric) -> int:
    """Return the largest number of cards to an uplink of a leaf, rounded up."""
    cables = counted_cables(seen.plan)
    tiers = {name: switch.tier for name, switch in seen.plan.switches.items()}
    most = 1.0
    for name, hcas in cables.hcas.items():
        up = cables.up(name, tiers).total()
        if tiers[name] == 1 and up:
            most = max(most, len(hcas) / up)
    return math.ceil(most)


def snippet(cluster: Cluster, fabric: Fabric, listed: AdoptedList, speed: bool = True) -> str:
    """Return the lines to paste, with comments on decisions that remain; the speed only if it is known."""
    *outer, own = cluster.stated.key
    lines = [f"{own}:", *_lines(cluster, fabric, listed, speed)]
    # Below the keys that the section is in.
    return "\n".join([*(f"{key}:" for key in outer), *(f"{'  ' * len(outer)}{line}" for line in lines)])


def _lines(cluster: Cluster, fabric: Fabric, listed: AdoptedList, speed: bool) -> Iterator[str]:
    old = cluster.fabric
    yield f"  cables: {fabric.cables}"
    yield f"  kind: {fabric.kind}"
    if fabric.technology != INFINIBAND:
        yield f"  technology: {fabric.technology}"
    elif not cluster.stated.first:
        managers = ", ".join(cluster.services.subnet_managers)
        yield f"  subnet_managers: [{managers}]" + (
            "" if managers else "  # Hosts of OpenSM; [] where a switch manages it."
        )
    elif cluster.stated.managers[0] != "services":
        yield f"  subnet_managers: [{', '.join(cluster.services.subnet_managers)}]"
    if speed:
        yield f"  speed: {fabric.speed}"
    else:
        yield f"  # LLDP states no speed: state `speed` if it is not {fabric.speed}, so that slow cables are found."
    yield f"  switch_ports: {fabric.switch_ports}"
    for key, value, usual in (
        ("cage_ports", fabric.cage_ports, 1),
        ("rails", fabric.rails, None),
        ("oversubscription", fabric.oversubscription, 1),
    ):
        if value != usual:
            yield f"  {key}: {value}"
    if old and fabric.technology == INFINIBAND and old.sharp != sharp_by_default(old.technology, old.speed):
        yield f"  sharp: {str(old.sharp).lower()}"
    if fabric.switches:
        yield "  switches:"
        for names, values in _folded(fabric.switches).items():
            yield f'    "{names}": {{{values}}}'
    if old:
        stay = [key for key in (*_KEPT, *(_TIERS if old.cables else ())) if _is_stated(old, key)]
        if stay:
            yield f"  # Keep of the present section: {', '.join(stay)}."
        gone = [key for key in ("uplinks", "missing", *(() if old.cables else _TIERS)) if getattr(old, key)]
        gone += ["global_links"] if old.global_links != 1 else []
        if gone:
            yield f"  # Remove of it, since cables state that: {', '.join(gone)}."
    if listed.strangers:
        yield f"# Hosts on this fabric that the file does not have: {few(sorted(listed.strangers, key=natural), 10)}. Each is an entry"
        yield "# of `hosts` with its `nics`, or of a rack."
    without = sorted(
        {hca.host for hca in listed.hcas.values() if hca.rail is None and hca.purpose == "storage"}, key=natural
    )
    if without and not any(hca.rail is not None for hca in listed.hcas.values()):
        yield "# No NIC of a profile has a `rail`, so all of them count as storage. State `rail` of the NICs for compute."


def _is_stated(fabric: Fabric, key: str) -> bool:
    return bool(getattr(fabric, key)) and (key, getattr(fabric, key)) != ("top", "spine")


def _folded(switches: tuple[SwitchTraits, ...]) -> Mapping[str, str]:
    """Return hostlist -> values of all switches alike."""
    alike: dict[str, list[str]] = {}
    for one in switches:
        pairs = (("ports", one.ports), ("cage_ports", one.cage_ports), ("group", one.group))
        alike.setdefault(", ".join(f"{key}: {value}" for key, value in pairs if value), []).append(one.name)
    return {fold(names): values for values, names in alike.items()}
