# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the plan of a cluster with discoveries, and write the table, files, verdict and learned GUIDs for the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.gc_pause import suspend_collection
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    LLDP,
    SavedError,
    ToolOutput,
)

from ...cluster import Cluster, Host, Node
from ..core import guid_record
from ..core.fabric_model import INFINIBAND, Plan
from ..core.places import ordered, worst
from ..plan.checked_plan import planned
from ..report import cable_list
from ..report.fabric_files import places
from ..report.finding_files import as_json, junit
from ..report.finding_table import printable, table
from ..report.page import page
from ..report.since_last import since_last
from ..topology.planned_topologies import slurm_files, tree_of
from . import plan_of_discovery
from .fabric_drift import Comparison, comparison
from .identify import with_learned_guids
from .lldp_discovery import read_discoveries, short

# Values of `fail_on`, by severity.
FATAL = {ERROR: (ERROR,), WARNING: (ERROR, WARNING), NOTICE: (ERROR, WARNING, NOTICE), "never": ()}
# Kinds of findings after which the name of a node is in doubt.
_DOUBTFUL = ("duplicate-guid", "duplicate-name")

# Remedy for nodes without a discovered adapter; there may be no plan.
_ASK_AGAIN = "check that the host is on, that its cable is plugged in, and that its adapter is named after it; then discover again"


@dataclass(frozen=True)
class ComparisonReport:
    """A comparison; `failed` by the limit that was given, `files` name -> text, `guids` the text of the new record."""

    summary: str
    table: str
    worst: str
    failed: bool
    counts: dict[str, int]
    files: dict[str, str]
    guids: str


@suspend_collection
def comparison_report(
    cluster: Cluster, outputs: Sequence[ToolOutput], fail_on: str = ERROR, step: int = 1, last: str = ""
) -> ComparisonReport:
    """Return the comparison of the plan with the outputs of discovery tools. Raises the errors of `planned`, and SavedError.

    `last` is the findings.json of the last comparison; with it, findings that are new are marked, and those that are gone are named.
    """
    plan = planned(cluster).plan
    queried, not_reported = _lldp_part(plan, outputs)
    result = comparison(queried, read_discoveries(outputs, plan, step))
    findings, ok = cluster.stated.findings(ordered([*result.findings, *not_reported])), len(result.ok)
    gravest = worst(findings)
    limit = fail_on if fail_on in (ERROR, WARNING, NOTICE) else ERROR
    shown = with_learned_guids(plan, result.seen) if result.seen else plan
    since = since_last(last, plan.name, findings)
    files = {
        "findings.json": as_json(plan, findings, ok=ok, since=since),
        "findings.xml": junit(plan, findings, fail_on=limit),
        "fabric.html": page(shown, findings, cable_list.rows(shown, places(cluster)), ok=ok),
    }
    summary = "; ".join(filter(None, (_summary(plan, result, findings), str(since))))
    return ComparisonReport(
        summary,
        table(findings, summary, since),
        gravest,
        gravest in FATAL[fail_on],
        {"ok": ok, **Counter(one.kind for one in findings)},
        files,
        guid_record.text_of(
            record_after(plan, result, guid_record.read(guid_record.path_of(cluster.path, cluster.stated.part)))
        ),
    )


def _lldp_part(plan: Plan, outputs: Sequence[ToolOutput]) -> tuple[Plan, list[Finding]]:
    """Return the part of a plan that LLDP can show, and findings about the rest: cables between devices that were not queried."""
    if not outputs or any(one.kind != LLDP for one in outputs):
        return plan, []
    queried = {short(name) for one in outputs for name in _lldp_boxes(one)}
    box = {name: hca.host for name, hca in plan.hcas.items()}
    links = [link for link in plan.links if {box.get(name, name) for name in (link.a, link.b)} & queried]
    if len(links) == len(plan.links):
        return plan, []
    kept = {name for link in links for name in (link.a, link.b)}
    silent = [name for name in dict.fromkeys(box.values()) if name not in queried]
    silent = [name for name in silent if any(box[hca] == name for hca in box.keys() - kept)]
    text = f"{len(plan.links) - len(links)} cables were not compared, since neither end was queried"
    text += f"; of hosts: {few(silent)}" if silent else "; all of them are between switches"
    if links:
        remedy, severity = "query the switches with lldpctl, too", WARNING if silent else NOTICE
    else:
        remedy = "no answer is of a device of the plan: save `lldpctl -f json` of each as NAME.json, or query the hosts"
        severity = ERROR
    finding = Finding("partial", plan.name, "", text, remedy, severity)
    part = replace(
        plan,
        links=links,
        switches={name: switch for name, switch in plan.switches.items() if name in kept},
        hcas={name: hca for name, hca in plan.hcas.items() if name in kept},
    )
    return part, [finding]


def _lldp_boxes(output: ToolOutput) -> list[str]:
    try:
        return list(output.answers())
    except SavedError:
        return []  # `read_discoveries` reports the mistake


def _summary(plan: Plan, result: Comparison, findings: Sequence[Finding]) -> str:
    counts = [f"{count} {kind}" for kind, count in Counter(one.kind for one in findings).items()]
    words = f"; findings: {', '.join(counts)}" if counts else ", no findings"
    return f"{plan.name}: {len(result.ok)} of {result.planned} planned cables are as planned{words}"


def record_after(plan: Plan, result: Comparison, old: guid_record.Record) -> guid_record.Record:
    """Return the record updated with the discovered GUIDs; names in doubt keep theirs, and a GUID stays with one name.

    A GUID whose node names another host now leaves its old name.

    Names that left the plan keep theirs, too: they may return, and only the record knows their GUIDs.
    """
    if result.seen is None or plan.technology != INFINIBAND:
        return old
    new = guid_record.record_of(with_learned_guids(plan, result.seen))
    doubtful = {name for one in result.findings if one.kind in _DOUBTFUL for name, _port in one.ports}
    doubtful |= result.seen.unrecorded.keys()
    fresh = {name for name in new if name in result.seen.guids and name not in doubtful}
    taken: set[str] = set()
    found: guid_record.Record = {}
    for name in [
        *sorted(fresh),
        *(name for name in old if name not in fresh and old[name]["node"] not in result.seen.moved),
    ]:
        guids = dict(new[name] if name in fresh else old[name])
        if name in fresh and name in old and old[name]["node"] != guids["node"] and name not in result.seen.port_guids:
            guids.pop("port", None)
        if not taken.intersection(guids.values()):
            taken.update(guids.values())
            found[name] = guids
    return found


def discovery_sources(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the hosts on which to run the discovery: `name`, and the options of the module fabric_facts.

    InfiniBand is discovered from one host: the first subnet manager with an adapter in the plan, else a node with one; with several planes,
    the one with adapters in most of them. RoCE is queried for on every node.
    """
    if cluster.fabric and cluster.fabric.technology != INFINIBAND:
        names = [node.name for node in cluster.nodes if node.profile.nics]
        names += [host.name for host in cluster.hosts.values() if host.nics]
        return [{"name": name, "lldp": True, "ports": [{}]} for name in names]
    plan = planned(cluster).plan if cluster.fabric else None
    # A host may have adapters in other fabrics, too.
    several = not cluster.stated.is_plain
    if plan and len(plan.planes) > 1:
        by_host: dict[str, dict[str, str]] = {}
        for hca in plan.hcas.values():
            by_host.setdefault(hca.host, {}).setdefault(hca.plane, hca.device)
        best = max(by_host, key=lambda host: len(by_host[host]))
        ports = [{"plane": plane, "ca": device} for plane, device in by_host[best].items()]
        return [{"name": best, "lldp": False, "ports": ports}]
    first = [*cluster.services.subnet_managers, *(node.name for node in cluster.nodes)]
    devices: dict[str, str] = {}
    for host, device in _devices(cluster, plan) if plan or several else ():
        devices.setdefault(host, device)
    if several and not devices:
        # The default port of a host may be in another fabric.
        raise ValueError(
            f"{cluster.path}: no NIC is in fabric {cluster.stated.name}, so it cannot be discovered from any host. Name the fabric in the "
            "`nics` of a profile or a host, or give saved texts with -e fabric_saved"
        )
    name = next((name for name in first if name in devices), first[0])
    ports = [{"ca": devices[name]}] if several and name in devices else [{}]
    return [{"name": name, "lldp": False, "ports": ports}]


def _devices(cluster: Cluster, plan: Plan | None) -> Iterator[tuple[str, str]]:
    """Yield the host and the device of each adapter: of the plan, else of the cluster file."""
    if plan:
        yield from ((hca.host, hca.device) for hca in plan.hcas.values())
        return
    machines: list[Host | Node] = [*cluster.hosts.values(), *cluster.nodes]
    for one in machines:
        yield from ((one.name, nic.name) for nic in (one.profile if isinstance(one, Node) else one).nics)


@dataclass(frozen=True)
class DiscoveredTopology:
    """Slurm's files for a discovered fabric, and findings; `partial` is the reason why they do not cover the whole fabric."""

    summary: str
    table: str
    files: dict[str, str]
    partial: str = ""


def discovered_topology(
    cluster: Cluster, outputs: Sequence[ToolOutput], version: str | None = None, **patterns: str
) -> DiscoveredTopology:
    """Return Slurm's topology of a discovery, independent of the plan; `patterns` as for `plan_of_discovery.plan_of`."""
    names = [node.name for node in cluster.nodes]
    plan, findings = plan_of_discovery.plan_of(
        read_discoveries(outputs), name=cluster.fabric_title, hosts=names, **patterns
    )
    topology = tree_of(cluster, plan, advice=_ASK_AGAIN)
    files = slurm_files({"default": topology}, version or cluster.slurm.version)
    found = ordered([*findings, *topology.findings])
    hosts = len({hca.host for hca in plan.hcas.values()})
    summary = f"{cluster.fabric_title}: {len(plan.switches)} switches and {hosts} of {len(names)} nodes were discovered"
    lacking = [f"{printable(one.where)}: {printable(one.difference)}" for one in found if one.severity == ERROR]
    return DiscoveredTopology(summary, table(found, summary), files, "\n".join(lacking))
