# SPDX-License-Identifier: GPL-3.0-or-later
"""Give nodes that a list of cables knows by their GUID alone their name of the list, so that they are compared and not reported again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import (
    SWITCH,
    DiscoveredNode,
    Discovery,
)

from ..core.fabric_model import Plan
from ..core.node_descriptions import is_unnamed, plain_name
from ..core.unnamed_nodes import guid_in_name


def named_by_list(plan: Plan, discoveries: Mapping[str, Discovery]) -> tuple[Mapping[str, Discovery], list[Finding]]:
    """Return the discoveries with the names of the list, and a finding about nodes that have got a name since it was written."""
    if not plan.listed:
        return discoveries, []
    names = {guid: name for name in (*plan.switches, *plan.hcas) if (guid := guid_in_name(name))}
    if not names:
        return discoveries, []
    found, renamed = {}, dict[str, str]()
    for plane, discovery in discoveries.items():
        nodes = {guid: _named(node, names, plan) for guid, node in discovery.nodes.items()}
        twins = [_named(node, names, plan) for node in discovery.twins]
        found[plane] = replace(discovery, nodes=nodes, twins=twins)
        for node in discovery.nodes.values():
            if node.guid in names and not is_unnamed(node.description) and names[node.guid] in plan.hcas:
                renamed[names[node.guid]] = plain_name(node.description)
    if not renamed:
        return found, []
    text = f"{len(renamed)} HCAs of the list have a name now: {few(f'{old} is {new}' for old, new in renamed.items())}"
    remedy = (
        "after the other faults are repaired, adopt the names: playbooks/fabric_adopt.yml -e fabric_adopt=update; "
        "it makes every cable the plan, as it is then"
    )
    return found, [Finding("unnamed", plan.name, "", text, remedy, NOTICE)]


def _named(node: DiscoveredNode, names: Mapping[str, str], plan: Plan) -> DiscoveredNode:
    """Return a node with the names of the list: its own, and those at the other ends of its cables."""
    cables = {
        port: replace(cable, description=names[cable.guid]) if names.get(cable.guid, "") in plan.hcas else cable
        for port, cable in node.cables.items()
    }
    if node.guid not in names or (node.kind == SWITCH and not is_unnamed(node.description)):
        return replace(node, cables=cables)
    return replace(node, cables=cables, description=names[node.guid])
