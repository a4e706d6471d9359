# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes that are in force: the forwarding tables of all switches, judged by the same measure as the proof of OpenSM's files.

ibnetdiscover has nodes, LIDs and cables, dump_fts the tables; both are read on a host of the fabric.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import SWITCH, Discovery
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    INFINIBAND,
    TABLES,
    SavedError,
    ToolOutput,
)

from .compare.identify import identify_nodes
from .core.fabric_model import Plan
from .simulate.engine_trials import LANES, MARGIN, counted_names
from .simulate.ideal_routes import Ideal
from .simulate.opensm_dumps import RoutedNode, Subnet, read_tables
from .simulate.proved_cables import cables_digest
from .simulate.route_quality import Metrics, broken, measure

# The file in `fabric_directory` that playbooks/fabric_check.yml writes: a plane, and what was proved of it.
PROVED = "proved.json"
ROUTES = "routes"
_CHECK = "run playbooks/fabric_check.yml, which writes what the planned files reach"


@dataclass(frozen=True)
class RunningRoutes:
    """Findings about the routes of all planes, and a line for each plane."""

    findings: list[Finding]
    lines: list[str]


def proved_of(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return plane -> what was proved, from the file; nothing where the file does not exist. ValueError for a file without that."""
    try:
        found = json.loads(path.read_text())
        return {
            str(one["plane"]): {**one, "engine": one["engine"], "imbalance": float(one["imbalance"])}
            for one in found["planes"]
        }
    except FileNotFoundError:
        return {}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: is not a result of a proof ({error!r}); {_CHECK}") from None


def running_routes(plan: Plan, outputs: Sequence[ToolOutput], proved: Mapping[str, Mapping[str, Any]]) -> RunningRoutes:
    """Return the judgement of the tables in force. Raises SavedError for outputs that do not belong together, and DumpError."""
    report = RunningRoutes([], [])
    tables = {one.name: one.text for one in outputs if one.kind == TABLES}
    found = {one.name: one.discovery() for one in outputs if one.kind == INFINIBAND}
    if not found or found.keys() != tables.keys():
        raise SavedError(
            "routes need the output of ibnetdiscover and that of dump_fts of each plane, under one name, such as rail0.txt and rail0.fts; "
            f"found: ibnetdiscover {', '.join(found) or 'none'}, dump_fts {', '.join(tables) or 'none'}"
        )
    for name, discovery in found.items():
        _judge_plane(plan, discovery, tables[name], proved, report)
    return report


def subnet_of(discovery: Discovery, names: Mapping[str, str], tables: str) -> Subnet:
    """Return nodes, cables and tables as OpenSM's dumps have them; `names` is GUID -> the plan's name."""
    subnet = Subnet()
    lids = {node.guid: node.lid for node in discovery.nodes.values() if node.lid}
    for node in discovery.nodes.values():
        if node.lid:
            name = names.get(node.guid, node.description)
            subnet.nodes[node.lid] = RoutedNode(name, node.guid, node.lid, node.kind == SWITCH, node.ports)
    for node in discovery.nodes.values():
        for port, cable in node.cables.items():
            if node.guid in lids and cable.guid in lids:
                subnet.cables[lids[node.guid], port] = (lids[cable.guid], cable.port)
    read_tables(subnet, tables)
    return subnet


def _judge_plane(
    plan: Plan, discovery: Discovery, tables: str, proved: Mapping[str, Mapping[str, Any]], report: RunningRoutes
) -> None:
    seen = identify_nodes(plan, {"": discovery})
    planes = [plan.switches[name].plane for name in seen.names.values() if name in plan.switches]
    if not planes:
        raise SavedError("no switch of the plan was discovered, so its routes cannot be compared with the plan")
    plane = planes[0]
    where = f"plane {plane}" if plane else plan.name
    counted = counted_names(plan, plane)
    metrics = measure(subnet_of(discovery, seen.names, tables), counted=counted, shifts=False)
    planned = len(counted or [one for one in plan.hcas.values() if one.plane == plane])
    known = proved.get(plane)
    if known and known.get("cables", "") not in ("", cables_digest(plan, plane)):
        report.findings.append(
            Finding(ROUTES, where, "", f"{PROVED} is of other cables than the plan has now", _CHECK, WARNING)
        )
        # Its limit is that of the other plan; that the engine has lanes stays true.
        known = {**known, "imbalance": 0.0}
    report.findings.extend(_findings(where, metrics, planned, known, Ideal(plan, plane).bound()))
    there = f"{metrics.hcas} of {planned} HCAs" if metrics.hcas < planned else f"{metrics.hcas} HCAs"
    busiest = f"busiest link {metrics.imbalance:.2f} times the mean ({metrics.busiest})"
    report.lines.append(f"{where}: {there}, {busiest if metrics.most else 'no link carries anything'}")


def _findings(
    where: str, metrics: Metrics, planned: int, proved: Mapping[str, Any] | None, bound: int
) -> Iterator[Finding]:
    # Circles of an engine that was proved and prevents them by lanes are none.
    lanes = proved is not None and proved["engine"] in LANES
    limit = proved["imbalance"] if proved else 0.0
    for one in broken(metrics, [] if lanes else metrics.hosts_loop):
        yield Finding(
            ROUTES, where, "", one, "playbooks/verify.yml --limit subnet_managers shows the engine in effect", ERROR
        )
    reached = f"the busiest link has {metrics.imbalance:.2f} times the mean load: {metrics.busiest}"
    # Flows are fewer while nodes are off; loads to their mean are not.
    whole = metrics.hcas == planned
    if proved and limit:
        if metrics.imbalance > MARGIN * limit:
            remedy = (
                "look for cables that differ (playbooks/fabric_compare.yml) and for files that are not in force "
                "(playbooks/verify.yml --limit subnet_managers)"
            )
            expected = f"{limit:.2f} times the mean, as proved with {proved.get('engine') or 'its files'}"
            yield Finding(ROUTES, where, expected, reached, remedy, ERROR if whole else WARNING)
    elif metrics.most > MARGIN * bound:
        yield Finding(
            ROUTES, where, "", f"{reached}; nothing is proved of this plane", _CHECK, WARNING if whole else NOTICE
        )
