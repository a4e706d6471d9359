# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what a person has confirmed: which nodes, and which of their disks may lose their data. All mistakes at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...module_utils.common.hostlist import HostlistError, expand, fold
from ..bmc.bmc_targets import IPMI, NameMistakesError, named_nodes, repeated_mistakes
from ..cluster import Cluster
from ..cluster.model import Node
from ..machines.machine_record import NOTHING, Machine

_NEEDED = ("serial", "boot_mac", "disk_serial")
_FINGERPRINT = "bmc_fingerprint"


class ConfirmationError(ValueError):
    """Mistakes in a person's confirmation, and in the record of the nodes, a line each."""


@dataclass(frozen=True)
class Confirmed:
    """The nodes of a run, in the order of the cluster file, and the nodes with disks that may lose their data."""

    nodes: tuple[Node, ...]
    wiped: frozenset[str]


def confirm(
    choices: Mapping[str, Any],
    cluster: Cluster,
    record: Mapping[str, Machine],
    limit: Collection[str] | None = None,
) -> Confirmed:
    """Return what the variables confirm; `limit` narrows the nodes and the disks. Raises ConfirmationError."""
    found: list[str] = []
    names: list[str] = []
    try:
        names = named_nodes(choices["provision_nodes"], cluster, "provision_nodes", limit)
    except NameMistakesError as error:
        found += str(error).splitlines()
    for variable in ("provision_wipe", "provision_without_slurm"):
        found += repeated_mistakes(choices[variable], variable, choices["provision_nodes"], "provision_nodes")
    nodes = {node.name: node for node in cluster.nodes}
    chosen = [nodes[name] for name in names]
    if cluster.provision is None:
        found.append("the cluster file has no section `provision`: state its `host`. See docs/bare-metal.md.")
    # Disks of nodes that --limit leaves out are not wiped.
    left = [name for name in names if name in _wiped(choices["provision_wipe"])]
    found += _count_mistakes(choices["provision_count"], [nodes[name] for name in left])
    found += _node_mistakes(chosen, cluster, record)
    if found:
        raise ConfirmationError("\n".join(found))
    return Confirmed(tuple(chosen), frozenset(left))


def _wiped(text: str) -> set[str]:
    """Return the nodes of provision_wipe; none for a text that is not a hostlist; `repeated_mistakes` names it."""
    try:
        return set(expand(text)) if text else set()
    except HostlistError:
        return set()


def _count_mistakes(stated: int, wiped: list[Node]) -> Iterator[str]:
    """Yield why the number of wiped disks is not confirmed: it must be stated for more than one rack."""
    racks = dict.fromkeys(node.rack.name for node in wiped)
    if stated and stated != len(wiped):
        yield f"provision_count: {stated}, and the disks of {len(wiped)} nodes would be wiped. Correct the names, or the number."
    elif len(racks) > 1 and not stated:
        where = ", ".join(racks)
        yield (
            f"provision_count is missing: the disks of {len(wiped)} nodes in the racks {where} would be wiped. If that is intended, add "
            f"-e provision_count={len(wiped)}"
        )


def _node_mistakes(nodes: list[Node], cluster: Cluster, record: Mapping[str, Machine]) -> Iterator[str]:
    """Yield a line for all nodes with the same mistake."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        for text in _of_node(node, cluster, record.get(node.name, NOTHING)):
            groups.setdefault(text, []).append(node.name)
    yield from (f"{fold(names)}: {text}" for text, names in groups.items())


def _of_node(node: Node, cluster: Cluster, recorded: Machine) -> Iterator[str]:
    has_ca = bool(cluster.provision and cluster.provision.ca)
    needed = _NEEDED if has_ca else (*_NEEDED, _FINGERPRINT)
    if missing := [key for key in needed if not recorded.values.get(key)]:
        remedy = "Run import_machines.yml, or bmc_discover.yml -e bmc_record=true"
        yield f"{', '.join(missing)} not on record. {remedy}, which write <name>.machines.json."
    if not node.image:
        yield f"no image. Set `image` in profile {node.profile.name}."
    elif node.image not in cluster.images:
        yield f"image {node.image!r} is not in `images` of the cluster file."
    if node.profile.metal.protocol == IPMI:
        yield "its BMC is commanded by IPMI, which shows no serial number, so the machine is not verified. Use Redfish."
