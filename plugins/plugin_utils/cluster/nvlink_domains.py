# SPDX-License-Identifier: GPL-3.0-or-later
"""NVLink domains: nodes of a rack, or of racks with one `nvlink_domain_name`, that one NVLink fabric joins.

The fabric's plan, Slurm and IMEX use the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from .model import Cluster, Node, Rack
from .rack_layout import Floor
from .schema.fields import Mistakes, Path

_KEY = "nvlink_domain_name"

_T = TypeVar("_T")


def split(members: Sequence[_T], size: int) -> list[tuple[_T, ...]]:
    """Return the domains that the members of a rack, or of racks with one name, make: as many of that size as fit, or one with all of them.

    What is too few or too many by some is no second domain: rule P12 of the fabric tells of it.

    >>> split("abcd", 2), split("abc", 2)
    ([('a', 'b'), ('c', 'd')], [('a', 'b', 'c')])
    """
    parts = len(members) // size if members and len(members) % size == 0 else 1
    each = len(members) // parts
    return [tuple(members[part * each : (part + 1) * each]) for part in range(parts)]


def whole_sizes(cluster: Cluster) -> dict[str, int]:
    """Return the number of nodes of a whole domain by profile: what the profile states, or else what most of its racks do."""
    counts: dict[str, Counter[int]] = {}
    for (_name, size), nodes in cluster.nodes_by_domain.items():
        for profile in {node.profile.name for node in nodes}:
            counts.setdefault(profile, Counter())[size] += 1
    stated = {name: cluster.profiles[name].nvlink_domain for name in counts}
    return {name: stated[name] or max(sizes, key=lambda size: (sizes[size], size)) for name, sizes in counts.items()}


def domain_of(cluster: Cluster, node: Node) -> tuple[Node, ...]:
    """Return the nodes of a node's NVLink domain in file order, itself among them; it alone where NVLink does not leave it."""
    size = node.nvlink_domain
    if not size:
        return (node,)
    # Each host of a run asks, in a process of its own: the nodes by rack are known there, and no other list of all nodes is.
    name = node.rack.nvlink_domain_name
    racks = [rack for rack in cluster.racks.values() if rack.nvlink_domain_name == name] if name else [node.rack]
    members = [one for rack in racks for one in cluster.nodes_by_rack.get(rack.name, ()) if one.nvlink_domain == size]
    return next(domain for domain in split(members, size) if any(one is node for one in domain))


def check_names(floor: Floor, mistakes: Mistakes) -> None:
    """Note the mistakes in `nvlink_domain_name`: one NVLink fabric joins consecutive racks, as many nodes each time, of one GPU model."""
    if not any(rack.nvlink_domain_name for rack in floor.racks.values()):
        return
    members: dict[str, list[Node]] = {}
    for node in floor.nodes:
        if node.nvlink_domain:
            members.setdefault(node.rack.name, []).append(node)
    for path, text in _wrong_names(floor, members):
        mistakes.add(path, text)


def _wrong_names(floor: Floor, members: dict[str, list[Node]]) -> Iterator[tuple[Path, str]]:
    keys = {node.rack.name: (*floor.owner[node.name][:2], _KEY) for node in floor.nodes}
    named: dict[str, list[Rack]] = {}
    without: dict[Path, str] = {}
    for rack in floor.racks.values():
        if not rack.nvlink_domain_name or rack.name not in keys:
            continue
        if rack.name not in members:
            without.setdefault(keys[rack.name], rack.name)
            continue
        named.setdefault(rack.nvlink_domain_name, []).append(rack)
    for path, name in without.items():
        yield path, f"no node of rack {name} is in an NVLink domain. Set `nvlink_domain` on the rack or on its profile."
    for name, racks in named.items():
        other = floor.racks.get(name)
        if other and not other.nvlink_domain_name and name in members:
            text = f"{name!r} is the NVLink domain of rack {name} already. Take another name, or set it on rack {name}, too."
            yield keys[racks[-1].name], text
        unlike = _unlike(name, [node for rack in racks for node in members[rack.name]])
        yield from ((keys[rack], text) for rack, text in unlike)
    yield from ((keys[rack.name], text) for rack, text in _apart(floor.racks[name] for name in members))


def _unlike(name: str, nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
    """Yield racks whose nodes cannot be in the NVLink domain of the nodes before them, with the reason."""
    for what, of in (("an `nvlink_domain` of", _size), ("GPUs of model", _model)):
        found: dict[str, Node] = {}
        for node in nodes:
            found.setdefault(of(node), node)
        if len(found) > 1:
            (one, first), (two, second), *_more = found.items()
            here = f"{two} in rack {second.rack.name} (profile {second.profile.name})"
            yield (
                second.rack.name,
                f"NVLink domain {name!r} has {what} {one} in rack {first.rack.name}, and {here}. One NVLink fabric joins nodes that are "
                "alike.",
            )


def _size(node: Node) -> str:
    return str(node.nvlink_domain)


def _model(node: Node) -> str:
    return node.profile.gpus.model if node.profile.gpus else "none"


def _apart(racks: Iterable[Rack]) -> Iterator[tuple[Rack, str]]:
    """Yield the racks whose NVLink domain has begun before the rack before them."""
    ended: dict[str, Rack] = {}
    for before, rack in pairwise(racks):
        if before.domain != rack.domain:
            ended[before.domain] = before
            if last := ended.get(rack.domain):
                yield (
                    rack,
                    f"rack {rack.name} is of NVLink domain {rack.domain!r}, as rack {last.name}, and rack {before.name} between them is "
                    "not. Write the racks of a domain one after another: Slurm joins consecutive blocks to larger ones.",
                )
