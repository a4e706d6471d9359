# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's topologies of a plan: the tree of its switches, and the blocks of its NVLink domains where they are stated.

topology/block has no place for a node that is in no block; before 25.05 Slurm has one topology for all nodes, after it several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from ...cluster import Cluster
from ...cluster.fabric_checks import in_fabric
from ..core.fabric_model import Domain, Plan
from . import slurm_topology
from .slurm_names import SlurmNames
from .slurm_topology import SlurmSwitch, Topology

# From here on topology.yaml has several topologies.
SEVERAL = slurm_topology.YAML
# Names of the topologies in topology.yaml, where it has several.
TREE, BLOCK = "tree", "block"
# The switch of nodes that have no adapter in the fabric.
_OUTSIDE = "no-fabric"


@dataclass
class Topologies:
    """`tree`; `blocks` where the release takes them; `named` as they are written, the one of all partitions first."""

    tree: Topology
    blocks: Topology | None = None
    named: dict[str, Topology] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def first(self) -> Topology:
        """Return the topology of partitions that name none."""
        return next(iter(self.named.values()))


def topologies(cluster: Cluster, plan: Plan, version: str, several: bool = True) -> Topologies:
    """Return the topologies for a release of Slurm; TopologyError for text that is not a release.

    Without `several` they are those of a topology.conf, which has one.
    """
    nodes = [node.name for node in cluster.nodes]
    tree = tree_of(cluster, plan)
    found = Topologies(tree, named={"default": tree}, findings=list(tree.findings))
    if not plan.domains:
        return found
    number = slurm_topology.release(version)
    members = {host for domain in plan.domains for host in domain.hosts}
    outside = [name for name in nodes if name not in members]
    if not several and outside:
        return found
    if why := _no_blocks(number, version, outside):
        text = f"{why}, so Slurm gets the tree alone, and may spread a job over NVLink domains"
        found.findings.append(Finding("topology", "NVLink domains", "", text, _advice(number, outside), WARNING))
        return found
    domains = {domain.name: domain.hosts for domain in plan.domains}
    short = [domain.name for domain in plan.domains if domain.absent]
    found.blocks = slurm_topology.blocks(plan, version, domains=domains, nodes=nodes, short=short)
    found.findings += _unlike(plan.domains, found.blocks, version)
    # Names of blocks that had to be changed, and the like; the tree has told its own.
    found.findings += [one for one in found.blocks.findings if one not in found.findings]
    if number < SEVERAL:
        found.named = {"default": found.blocks}
    else:
        found.named = {TREE: tree, BLOCK: found.blocks} if outside else {BLOCK: found.blocks, TREE: tree}
        found.findings += _mixed(cluster) if outside else []
    return found


def partition_topologies(cluster: Cluster) -> dict[str, str]:
    """Return partition -> name of its topology where some nodes are in NVLink domains and some are not: blocks if all of its nodes are.

    A partition with both kinds has the tree, because a block topology starts no job on nodes in no block while a node of one is free.
    """
    inside = {node.name for node in cluster.nodes if node.nvlink_domain}
    return {name: BLOCK if inside.issuperset(one.nodes) else TREE for name, one in cluster.partitions.items()}


def _mixed(cluster: Cluster) -> Iterator[Finding]:
    """Yield a warning for each partition that has nodes in NVLink domains and others, and states no topology itself."""
    inside = {node.name for node in cluster.nodes if node.nvlink_domain}
    for name, partition in cluster.partitions.items():
        of_domains = [node for node in partition.nodes if node in inside]
        others = [node for node in partition.nodes if node not in inside]
        if of_domains and others and "topology" not in {option.lower() for option in partition.options}:
            text = f"{fold(of_domains)} are in NVLink domains, {fold(others)} are not: it gets the tree"
            text += ", and Slurm may spread a job of it over domains"
            remedy = "make a partition of the nodes in NVLink domains alone"
            yield Finding("topology", f"partition {name}", "", text, remedy, WARNING)


def _unlike(domains: Sequence[Domain], blocks: Topology, version: str) -> Iterator[Finding]:
    """Yield the findings of NVLink domains whose number of nodes is not the first of BlockSizes."""
    size = blocks.sizes[0]
    for one in domains:
        if not one.absent:
            continue
        text = f"NVLink domain {one.name} ({fold(one.hosts)}) has {len(one.hosts)} nodes instead of {len(one.hosts) + one.absent}"
        where = f"racks {fold(one.racks)}" if one.racks else f"rack {one.rack}"
        whole = "when it is whole, remove its `nvlink_domain`"
        if one.name not in blocks.left_out:
            yield Finding("topology", where, "", text, whole, NOTICE)
            continue
        several = " or of several such domains" if len(blocks.left_out) > 1 else ""
        yield Finding(
            "topology",
            where,
            "",
            f"{text}. Slurm {version} does not start with a block below the {size} of BlockSizes, so these nodes are in no block: a job "
            f"gets only nodes of blocks, or, when all of them are in use, only nodes of this domain{several}",
            f"make a partition of {fold(one.hosts)} alone, or take Slurm {SEVERAL[0]}.{SEVERAL[1]:02} or newer; {whole}",
            WARNING,
        )
    if larger := [one for one in domains if len(one.hosts) > size and one.name not in blocks.left_out]:
        most = max(len(one.hosts) for one in larger)
        names = ", ".join(one.name for one in larger[:3]) + (f" and {len(larger) - 3} more" if len(larger) > 3 else "")
        jobs = f"{size + 1} to {most}" if most > size + 1 else str(most)
        yield Finding(
            "topology",
            "NVLink domains",
            "",
            f"{names} have more nodes than the {size} of BlockSizes: Slurm may spread a job of {jobs} nodes over several domains",
            "keep such a job in a domain with --constraint=rack_<name>",
            WARNING,
        )


def tree_of(cluster: Cluster, plan: Plan, **options: str) -> Topology:
    """Return the tree, with a switch by itself for nodes that are meant to have no adapter in the fabric.

    Slurm starts no job on several nodes that are below no switch. Nothing joins it with the tree, as no cable of the fabric does.
    `options` are further ones of `slurm_topology.tree`.
    """
    top, kind = (cluster.fabric.top, cluster.fabric.kind) if cluster.fabric else ("top", "")
    seen = {hca.host for hca in plan.hcas.values()}
    # Without a section `fabric` nothing says which nodes are to have none.
    inside = {
        node.name: not cluster.fabric or node.name in seen or (in_fabric(node.profile, kind) and not plan.listed)
        for node in cluster.nodes
    }
    tree = slurm_topology.tree(plan, nodes=[name for name, there in inside.items() if there], top=top, **options)
    if without := tuple(name for name, there in inside.items() if not there):
        names = SlurmNames()
        for switch in tree.switches:
            names.take(switch.name)
        name = names.take(_OUTSIDE)
        tree.switches.insert(0, SlurmSwitch(name, 0, without, (), without, (name,)))
        text = f"{fold(without)} have no NIC in the fabric: Slurm has them below {name}, which nothing joins with the others"
        tree.findings.append(Finding("topology", name, "", text, severity=NOTICE))
    return tree


def _no_blocks(number: tuple[int, int], version: str, outside: Sequence[str]) -> str:
    if number < slurm_topology.BLOCK:
        return f"Slurm {version} does not support blocks"
    if outside and number < SEVERAL:
        return f"{fold(outside)} are in none, and Slurm {version} has one topology for all nodes"
    return ""


def _advice(number: tuple[int, int], outside: Sequence[str]) -> str:
    least = SEVERAL if outside else slurm_topology.BLOCK
    return f"take Slurm {least[0]}.{least[1]:02} or newer" if number < least else ""


def slurm_files(named: Mapping[str, Topology], version: str) -> dict[str, str]:
    """Return Slurm's files of topologies by name, the first for all partitions that name none; TopologyError for what a version lacks.

    topology.conf holds the first alone.
    """
    first = next(iter(named.values()))
    found = {"slurm/topology.conf": _head(first) + slurm_topology.conf(first, version)}
    if slurm_topology.release(version) >= SEVERAL:
        found["slurm/topology.yaml"] = slurm_topology.yaml(named, version)
    return found


def _head(topology: Topology) -> str:
    """Return the comment about the options of slurm.conf for the file."""
    return "".join(f"# slurm.conf: {name}={value}\n" for name, value in topology.options.items())
