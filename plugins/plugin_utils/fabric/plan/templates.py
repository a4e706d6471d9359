# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans from a few numbers: the shapes in which GPU fabrics are built.

Every template takes hosts in their physical order and a `FabricShape`, and returns a `Plan`. What cannot be built from whole cables is a
`TemplateError` that names the numbers and those that would work.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence

from ..core.fabric_model import Plan
from .wiring import (
    Cable,
    FabricShape,
    TemplateError,
    WiredHost,
    WiredNic,
    add_cores,
    add_spines,
    attach,
    between,
    even,
    join_above,
    join_last,
    uplinks_of,
)

__all__ = [
    "TEMPLATES",
    "FabricShape",
    "TemplateError",
    "WiredHost",
    "WiredNic",
    "dragonfly",
    "leaf_spine",
    "rail_only",
    "rail_optimised",
    "three_tier",
    "unjoined",
]  # fmt: skip


def leaf_spine(hosts: Sequence[WiredHost], shape: FabricShape) -> Plan:
    """Return a fabric with a leaf for each rack (or each `leaf` that racks share) and spines above all leaves."""
    plan = _plan("leaf-spine", shape)
    below = attach(plan, hosts, shape, _rack_leaf, _nowhere)
    spines = add_spines(plan, shape.spines, shape, tier=2)
    join_above(plan, below, spines, uplinks_of(plan, below, len(spines), shape), "leaf-spine")
    return plan


def rail_optimised(hosts: Sequence[WiredHost], shape: FabricShape) -> Plan:
    """Return scalable units with a leaf for each rail, all of them below the same spines; with `cores`, spines by rail below those."""
    plan = _plan("rail-optimised" if not shape.cores else "three-tier", shape)
    below = attach(plan, hosts, shape, _rail_leaf, _of_rail)
    if not shape.cores:
        spines = add_spines(plan, shape.spines, shape, tier=2)
        join_above(plan, below, spines, uplinks_of(plan, below, len(spines), shape), "leaf-spine")
        return plan
    rails = sorted({plan.switches[leaf].rail or 0 for leaf in below})
    per_rail = even(len(shape.spines), len(rails), "spines", "rails")
    for number, rail in enumerate(rails):
        names = shape.spines[number * per_rail : (number + 1) * per_rail]
        leaves = [leaf for leaf in below if plan.switches[leaf].rail == rail]
        # More spines than a leaf has uplinks: the rail falls into pods, each of as many spines as uplinks.
        pods = max(1, per_rail // shape.uplinks) if shape.uplinks else 1
        size, spines_each = (
            even(len(leaves), pods, "leaves of a rail", "pods"),
            even(per_rail, pods, "spines of a rail", "pods"),
        )
        for pod in range(pods):
            part = leaves[pod * size : (pod + 1) * size]
            group = f"rail{rail}" if pods == 1 else f"rail{rail}-pod{pod + 1}"
            above = names[pod * spines_each : (pod + 1) * spines_each]
            spines = add_spines(plan, above, shape, tier=2, rail=rail, group=group)
            join_above(plan, part, spines, uplinks_of(plan, part, len(spines), shape), "leaf-spine")
    add_cores(plan, shape)
    return plan


def three_tier(hosts: Sequence[WiredHost], shape: FabricShape) -> Plan:
    """Return pods of leaves (a leaf for each rack) and spines, and cores above all pods; `spines` are split evenly over the pods."""
    plan = _plan("three-tier", shape)
    below = attach(plan, hosts, shape, _rack_leaf, _nowhere)
    pods = list(dict.fromkeys(plan.switches[leaf].group for leaf in below))
    per_pod = even(len(shape.spines), len(pods), "spines", "pods")
    for number, pod in enumerate(pods):
        names = shape.spines[number * per_pod : (number + 1) * per_pod]
        spines = add_spines(plan, names, shape, tier=2, group=pod)
        leaves = [leaf for leaf in below if plan.switches[leaf].group == pod]
        join_above(plan, leaves, spines, uplinks_of(plan, leaves, len(spines), shape), "leaf-spine")
    add_cores(plan, shape)
    return plan


def rail_only(hosts: Sequence[WiredHost], shape: FabricShape) -> Plan:
    """Return a separate fabric for each rail, its plane; `spines` are split evenly over the rails, and may be 0."""
    plan = _plan("rail-only", shape)
    below = attach(plan, hosts, shape, _rail_leaf, _of_plane)
    planes = list(dict.fromkeys(plan.switches[leaf].plane for leaf in below))
    per_plane = even(len(shape.spines), len(planes), "spines", "rails") if shape.spines else 0
    for number, plane in enumerate(planes):
        leaves = [leaf for leaf in below if plan.switches[leaf].plane == plane]
        names = shape.spines[number * per_plane : (number + 1) * per_plane]
        if not names and len(leaves) > 1:
            raise TemplateError(
                f"plane {plane} has {len(leaves)} leaves and no spine that joins them: name spines for each rail",
                "spines",
            )
        spines = add_spines(plan, names, shape, tier=2, plane=plane)
        if spines:
            join_above(plan, leaves, spines, uplinks_of(plan, leaves, len(spines), shape), "leaf-spine")
    return plan


def dragonfly(hosts: Sequence[WiredHost], shape: FabricShape) -> Plan:
    """Return groups joined pairwise by `global_links` cables: of routers in full mesh, or (dragonfly+) of leaves and spines."""
    plan = _plan("dragonfly", shape)
    below = attach(plan, hosts, shape, _rack_leaf, _nowhere)
    groups = list(dict.fromkeys(plan.switches[leaf].group for leaf in below))
    per_group = even(len(shape.spines), len(groups), "spines", "groups") if shape.spines else 0
    edges: dict[str, list[str]] = {}
    cables: list[Cable] = []
    for number, group in enumerate(groups):
        leaves = [leaf for leaf in below if plan.switches[leaf].group == group]
        names = shape.spines[number * per_group : (number + 1) * per_group]
        spines = add_spines(plan, names, shape, tier=2, group=group)
        if spines:
            join_above(plan, leaves, spines, uplinks_of(plan, leaves, len(spines), shape), "local")
        else:
            cables += [(one, other, "local") for one, other in itertools.combinations(leaves, 2)]
        edges[group] = spines or leaves
    # From the last port downwards, so that a group that comes later moves none of the others' cables.
    cables += between(edges, shape.global_links)
    start = len(plan.links)
    join_last(plan, cables[::-1], itertools.chain(*edges.values()))
    plan.links[start:] = plan.links[start:][::-1]
    return plan


TEMPLATES: dict[str, Callable[[Sequence[WiredHost], FabricShape], Plan]] = {
    "leaf-spine": leaf_spine,
    "rail-optimised": rail_optimised,
    "three-tier": three_tier,
    "rail-only": rail_only,
    "dragonfly": dragonfly,
}


def _plan(kind: str, shape: FabricShape) -> Plan:
    spare = {switch: sorted(ports) for switch, ports in shape.spare.items()}
    return Plan(
        shape.name, kind, shape.technology, shape.speed, shape.width, shape.oversubscription, shape.sharp, spare=spare
    )


def _rail_leaf(host: WiredHost, nic: WiredNic) -> str:
    return f"{host.leaf or 'leaf-' + host.unit}-r{nic.rail}"


def _rack_leaf(host: WiredHost, _nic: WiredNic) -> str:
    return host.leaf or f"leaf-{host.rack}"


def _nowhere(_nic: WiredNic) -> tuple[int | None, str]:
    return None, ""


def _of_rail(nic: WiredNic) -> tuple[int | None, str]:
    return nic.rail, ""


def _of_plane(nic: WiredNic) -> tuple[int | None, str]:
    return nic.rail, f"rail{nic.rail}"


# Kind -> how a NIC finds its leaf, and that its rail and plane; every other kind has a leaf for each rack.
_BELOW = {"rail-optimised": (_rail_leaf, _of_rail), "rail-only": (_rail_leaf, _of_plane)}


def unjoined(kind: str, hosts: Sequence[WiredHost], shape: FabricShape) -> Plan:
    """Return the known part of a fabric that cannot be built: all its switches and HCAs, and no cable between switches.

    What else a cluster file says of switches and ports is judged by it, as far as uplinks do not matter.
    """
    plan = _plan(kind, shape)
    # That they do not fit has been told.
    with contextlib.suppress(TemplateError):
        attach(plan, hosts, shape, *_BELOW.get(kind, (_rack_leaf, _nowhere)))
    add_spines(plan, shape.spines, shape, tier=2)
    add_spines(plan, shape.cores, shape, tier=3)
    return plan
