# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a cluster against what was discovered, as an operator gets it: a table, files, a verdict and the GUIDs that were learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import cables, discovered, lldp
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.binding import learned
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.compare import Comparison, comparison
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import few, ordered, worst
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.page import as_json, junit, page
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.saved import LLDP, SavedError, Told, discoveries
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from . import record
from .artefacts import INFINIBAND, places, planned, slurm_files
from .topologies import tree_of

# What `fail_on` can be, and what is worse.
FATAL = {ERROR: (ERROR,), WARNING: (ERROR, WARNING), NOTICE: (ERROR, WARNING, NOTICE), "never": ()}
# Findings that a terminal shows; all are in the files.
_SHOWN = 100
# Kinds of findings that say that a name is not surely that of the node that has it.
_DOUBTFUL = ("duplicate-guid", "duplicate-name")

# What to do with nodes of the cluster of which no adapter was discovered; there may be no plan.
_ASK_AGAIN = "see that it is on, that its cable is in, and that its adapter is named after it; then discover again"


@dataclass(frozen=True)
class Report:
    """A comparison; `failed` as it was asked for, `files` name -> text, `guids` the text of the new record."""

    summary: str
    table: str
    worst: str
    failed: bool
    counts: dict[str, int]
    files: dict[str, str]
    guids: str


def compared(cluster: Cluster, told: Sequence[Told], fail_on: str = ERROR, step: int = 1) -> Report:
    """Return the comparison of the plan with what was told; raises what `artefacts.planned` raises, and SavedError."""
    plan = planned(cluster).plan
    asked, unasked = _askable(plan, told)
    result = comparison(asked, discoveries(told, plan, step))
    findings, ok = ordered([*result.findings, *unasked]), len(result.ok)
    gravest = worst(findings)
    limit = fail_on if fail_on in (ERROR, WARNING, NOTICE) else ERROR
    shown = learned(plan, result.seen) if result.seen else plan
    files = {
        "findings.json": as_json(plan, findings, ok=ok),
        "findings.xml": junit(plan, findings, fail_on=limit),
        "fabric.html": page(shown, findings, cables.rows(shown, places(cluster)), ok=ok),
    }
    summary = _summary(plan, result, findings)
    return Report(
        summary,
        table(findings, summary),
        gravest,
        gravest in FATAL[fail_on],
        {"ok": ok, **Counter(one.kind for one in findings)},
        files,
        record.text_of(_guids(plan, result, record.read(record.path_of(cluster.path)))),
    )


def _askable(plan: Plan, told: Sequence[Told]) -> tuple[Plan, list[Finding]]:
    """Return the part of a plan that LLDP can tell of, and what it cannot: a cable between boxes of which neither was asked."""
    if not told or any(one.kind != LLDP for one in told):
        return plan, []
    asked = {lldp.short(name) for one in told for name in _boxes(one)}
    box = {name: hca.host for name, hca in plan.hcas.items()}
    links = [link for link in plan.links if {box.get(name, name) for name in (link.a, link.b)} & asked]
    if len(links) == len(plan.links):
        return plan, []
    kept = {name for link in links for name in (link.a, link.b)}
    silent = [name for name in dict.fromkeys(box.values()) if name not in asked]
    silent = [name for name in silent if any(box[hca] == name for hca in box.keys() - kept)]
    text = f"of {len(plan.links) - len(links)} cables nothing is known, since neither end was asked"
    text += f"; of hosts: {few(silent)}" if silent else "; all of them are between switches"
    finding = Finding(
        "partial", plan.name, "", text, "ask the switches with lldpctl, too", WARNING if silent else NOTICE
    )
    part = replace(
        plan,
        links=links,
        switches={name: switch for name, switch in plan.switches.items() if name in kept},
        hcas={name: hca for name, hca in plan.hcas.items() if name in kept},
    )
    return part, [finding]


def _boxes(told: Told) -> list[str]:
    try:
        return list(told.answers())
    except SavedError:
        return []  # `discoveries` says what is wrong


def _summary(plan: Plan, result: Comparison, findings: Sequence[Finding]) -> str:
    counts = [f"{count} {kind}" for kind, count in Counter(one.kind for one in findings).items()]
    words = f"; findings: {', '.join(counts)}" if counts else ", and nothing else was found"
    return f"{plan.name}: {len(result.ok)} of {result.planned} planned cables are as planned{words}"


def table(findings: Sequence[Finding], summary: str) -> str:
    """Return findings for a terminal, the gravest first: where to go, what is there, and what to do."""
    lines = [summary]
    width = max((len(one.kind) for one in findings), default=0)
    for one in findings[:_SHOWN]:
        lines.append(f"{one.severity.upper():7}  {one.kind:{width}}  {_plain(one.where)}: {_plain(one.difference)}")
        if one.remedy:
            lines.append(f"{'':7}  {'':{width}}  -> {_plain(one.remedy)}")
    if len(findings) > _SHOWN:
        lines.append(f"and {len(findings) - _SHOWN} more; findings.json and fabric.html have all")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return text that does nothing to a terminal: names come from the network."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _guids(plan: Plan, result: Comparison, old: record.Record) -> record.Record:
    """Return the record with what was seen laid over it; names in doubt keep what they have, and a GUID stays with one name.

    Names that left the plan keep theirs, too: they may come back, and nobody else knows them.
    """
    if result.seen is None or plan.technology != INFINIBAND:
        return old
    new = record.record_of(learned(plan, result.seen))
    doubtful = {name for one in result.findings if one.kind in _DOUBTFUL for name, _port in one.ports}
    fresh = {name for name in new if name in result.seen.guids and name not in doubtful}
    taken: set[str] = set()
    found: record.Record = {}
    for name in [*sorted(fresh), *(name for name in old if name not in fresh)]:
        guids = dict(new[name] if name in fresh else old[name])
        if name in fresh and name in old and old[name]["node"] != guids["node"] and name not in result.seen.port_guids:
            guids.pop("port", None)
        if not taken.intersection(guids.values()):
            taken.update(guids.values())
            found[name] = guids
    return found


def sources(cluster: Cluster) -> list[dict[str, Any]]:
    """Return from which hosts to discover: `name`, and the options of the module fabric_facts.

    InfiniBand is discovered from one host: the first subnet manager with an adapter in the plan, else a node with one; where planes are
    several, the one with adapters in most of them. RoCE is asked for on every node.
    """
    if cluster.fabric and cluster.fabric.technology != INFINIBAND:
        names = [node.name for node in cluster.nodes if node.profile.nics]
        names += [host.name for host in cluster.hosts.values() if host.nics]
        return [{"name": name, "lldp": True, "ports": [{}]} for name in names]
    plan = planned(cluster).plan if cluster.fabric else None
    if plan and len(plan.planes) > 1:
        by_host: dict[str, dict[str, str]] = {}
        for hca in plan.hcas.values():
            by_host.setdefault(hca.host, {}).setdefault(hca.plane, hca.device)
        best = max(by_host, key=lambda host: len(by_host[host]))
        ports = [{"plane": plane, "ca": device} for plane, device in by_host[best].items()]
        return [{"name": best, "lldp": False, "ports": ports}]
    first = [*cluster.services.subnet_managers, *(node.name for node in cluster.nodes)]
    inside = {hca.host for hca in plan.hcas.values()} if plan else set()
    return [{"name": next((name for name in first if name in inside), first[0]), "lldp": False, "ports": [{}]}]


@dataclass(frozen=True)
class Found:
    """Slurm's files of what was discovered, and what could not be told; `partial` says why they are not of the whole fabric."""

    summary: str
    table: str
    files: dict[str, str]
    partial: str = ""


def of_discovered(cluster: Cluster, told: Sequence[Told], version: str | None = None, **patterns: str) -> Found:
    """Return Slurm's topology of what was discovered, whatever the plan; `patterns` are those of `discovered.plan_of`."""
    names = [node.name for node in cluster.nodes]
    plan, findings = discovered.plan_of(discoveries(told), name=cluster.name, hosts=names, **patterns)
    topology = tree_of(cluster, plan, advice=_ASK_AGAIN)
    files = slurm_files({"default": topology}, version or cluster.slurm.version)
    found = ordered([*findings, *topology.findings])
    hosts = len({hca.host for hca in plan.hcas.values()})
    summary = f"{cluster.name}: {len(plan.switches)} switches and {hosts} of {len(names)} nodes were discovered"
    lacking = [f"{_plain(one.where)}: {_plain(one.difference)}" for one in found if one.severity == ERROR]
    return Found(summary, table(found, summary), files, "\n".join(lacking))
