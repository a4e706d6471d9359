# SPDX-License-Identifier: GPL-3.0-or-later
"""P11 and P12: Slurm's topology has the nodes of the plan, and NVLink domains are whole racks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import Domain, PlanProblem
from ..core.host_tree import DisjointSets
from ..core.node_descriptions import natural
from ..topology.slurm_topology import Topology
from .plan_index import View, plan_problem


def slurm_leaves(view: View) -> Iterator[PlanProblem]:
    """P11: each node is in one leaf and at most one block, and all of slurm.conf are in one."""
    topology, nodes = view.topology, view.nodes
    if topology is None:
        return
    leaves = {switch.name: switch.nodes for switch in topology.switches if not switch.switches}
    for what, groups in (("leaf", leaves), ("block", topology.blocks)):
        counts = Counter(node for members in groups.values() for node in members)
        for node, count in counts.items():
            if count > 1:
                places = [name for name, members in groups.items() if node in members]
                text = f"is in {count} of Slurm's {'leaves' if what == 'leaf' else 'blocks'}: {few(places)}"
                yield plan_problem("P11", node, text)
        for node in nodes if groups else ():
            if node not in counts:
                yield plan_problem("P11", node, f"is a node of slurm.conf, and in no {what} of the topology")


def slurm_roots(view: View) -> Iterator[PlanProblem]:
    """P11: Slurm's roots are the parts of the fabric that cables join, one each."""
    topology = view.topology
    if topology is None or not topology.switches:
        return
    below = {child for switch in topology.switches for child in switch.switches}
    roots = {switch.name: switch.all_nodes for switch in topology.switches if switch.name not in below}
    part_of = _parts(view)
    parts: dict[str, list[str]] = {}
    for name, nodes in roots.items():
        mine = list(dict.fromkeys(part_of[node] for node in nodes if node in part_of))
        if len(mine) > 1:
            some = [next((node for node in nodes if part_of.get(node) == part), "") for part in mine]
            yield plan_problem("P11", name, f"Slurm would place jobs across {few(some)}, which no cable joins")
        for part in mine:
            parts.setdefault(part, []).append(name)
    for names in parts.values():
        if len(names) > 1:
            yield plan_problem(
                "P11",
                few(names),
                "cables join what is below them, and Slurm has no common switch: jobs cannot span them",
            )


def _parts(view: View) -> dict[str, str]:
    """Return host -> one switch or host of its connected part, joined by cables of any of its planes."""
    union = DisjointSets()
    host_of = {name: f"host {hca.host}" for name, hca in view.plan.hcas.items()}
    for link in view.plan.present:
        union.join(host_of.get(link.a, link.a), host_of.get(link.b, link.b))
    hosts = {hca.host for hca in view.plan.hcas.values()}
    return {host: str(union.find(f"host {host}")) for host in hosts}


def domains(view: View) -> Iterator[PlanProblem]:
    """P12: an NVLink domain is one rack, or the racks with its name, whole, and no other's."""
    names = Counter(domain.name for domain in view.plan.domains)
    for name, count in names.items():
        if count > 1:
            yield plan_problem("P12", name, f"is the name of {count} NVLink domains")
    racks = {hca.host: hca.rack for hca in view.plan.hcas.values()}
    of: dict[str, str] = {}
    ids: dict[str, str] = {}
    for domain in view.plan.domains:
        where = f"rack {domain.rack}, {domain.name}" if domain.rack else domain.name
        for host in domain.hosts:
            if host in of:
                yield plan_problem("P12", where, f"{host} is in the NVLink domain {of[host]} as well")
            of.setdefault(host, domain.name)
            if host not in racks:
                yield plan_problem("P12", where, f"{host} is not a host of the plan")
        yield from (plan_problem("P12", where, text) for text in _domain(domain, racks))
        if domain.uuid:
            mark = f"{domain.uuid}.{domain.clique}"
            if mark in ids:
                yield plan_problem(
                    "P12", where, f"has cluster UUID and clique {mark} of {ids[mark]}: they are one domain"
                )
            ids.setdefault(mark, domain.name)


def _domain(domain: Domain, racks: Mapping[str, str]) -> Iterator[str]:
    if len(set(domain.hosts)) != domain.expected:
        yield f"{len(set(domain.hosts))} hosts, expected {domain.expected}"
    elsewhere: dict[str, list[str]] = {}
    own = domain.racks or (domain.rack or next((racks[host] for host in domain.hosts if host in racks), ""),)
    for host in domain.hosts:
        if racks.get(host, own[0]) not in own:
            elsewhere.setdefault(racks[host], []).append(host)
    for rack, hosts in elsewhere.items():
        yield f"{few(hosts)} in rack {rack}: NVLink does not leave a rack"


def block_order(view: View) -> Iterator[PlanProblem]:
    """P12: blocks are in the order of racks, for Slurm makes larger ones of neighbours, and their sizes double."""
    topology = view.topology
    domains = [one for one in view.plan.domains if one.hosts]
    domains = [one for one in domains if one.rack]
    for one, following in pairwise(domains):
        if natural(following.rack) < natural(one.rack):
            yield plan_problem(
                "P12",
                f"rack {following.rack}, {following.name}",
                f"follows {one.name} of rack {one.rack}: Slurm joins consecutive blocks to larger ones",
            )
    if topology is not None:
        yield from _sizes(topology)


def _sizes(topology: Topology) -> Iterator[PlanProblem]:
    sizes = list(topology.sizes)
    for size in sizes[1:]:
        times, rest = divmod(size, sizes[0])
        if rest or times & (times - 1) or times < 2:
            yield plan_problem("P12", "BlockSizes", f"{size} is not 2, 4, 8, ... times {sizes[0]}")
    if sizes != sorted(sizes):
        yield plan_problem("P12", "BlockSizes", f"{', '.join(map(str, sizes))} do not rise")
